//! The writer thread runs all queued operations in one transaction, commits it, and then sends each
//! result to its caller.
//!
//! A batch does not wait for more operations: those that arrive while it is written form the next
//! batch. If an operation fails, the transaction is aborted, and each operation runs again in a
//! transaction of its own, so that it fails alone.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{mem, thread};

use parking_lot::{Condvar, Mutex};
use redb::Durability;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, oneshot};
use tokio::time::timeout;
use tracing::{error, warn};

use crate::embedded::engine::Engine;
use crate::embedded::engine::clock::Clock;
use crate::embedded::engine::error::{damaged, failure};
use crate::embedded::transaction::read_ahead::ReadAheadCache;
use crate::embedded::transaction::write::{WriteTransaction, reserve_space};
use crate::monitoring::ProcessedCounter;
use crate::moved_messages::OtherStores;
use crate::watch::Watchers;
use crate::{DeliverySignal, Error, Processed};

/// When acknowledged changes are on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before they are acknowledged. Concurrent operations share the wait.
    #[default]
    Group,
    /// Within a second.
    Interval,
    /// Within a minute, or when the store is closed.
    Off,
}

impl Fsync {
    /// Returns how long committed changes may be missing on disk; `None` if not at all.
    fn interval(self) -> Option<Duration> {
        match self {
            Self::Group => None,
            Self::Interval => Some(Duration::from_secs(1)),
            Self::Off => Some(Duration::from_secs(60)),
        }
    }
}

/// Maximum number of operations in a batch.
pub(crate) const BATCH_JOBS_MAX: usize = 256;
/// Maximum number of bytes that the operations of a batch write. One operation may write more.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Maximum number of queued operations. Further callers wait until there is a free slot.
const QUEUED_JOBS_MAX: usize = 4_096;
/// Time after which an operation's outcome is reported as unknown.
const OPERATION_TIMEOUT: Duration = Duration::from_secs(10);

/// From this file length on, each commit also records which pages are free. Without that record, a
/// file that was not closed cleanly is read as a whole when it is opened, which takes a second for
/// half a gigabyte. With it, a commit takes two syncs and twice as long.
const QUICK_REPAIR_BYTES: u64 = 256 << 20;

/// The progress of one run of an operation.
pub(crate) enum Step<T> {
    /// The operation is complete.
    Done(T),
    /// The operation has done a part of its preparation, and must run again in another transaction.
    Again,
}

/// Queues operations for the writer thread.
pub(crate) struct Writer {
    queue: Arc<JobQueue>,
    slots: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct JobQueue {
    waiting: Mutex<QueuedJobs>,
    arrived: Condvar,
}

#[derive(Default)]
struct QueuedJobs {
    jobs: VecDeque<Box<dyn Job>>,
    is_closed: bool,
}

/// An operation with any type of result.
trait Job: Send {
    fn bytes(&self) -> usize;

    /// Runs the operation. Returns whether it is complete.
    fn run(&mut self, store: &mut WriteTransaction<'_>) -> Result<bool, Error>;

    /// Sends the outcome to the caller.
    fn complete(self: Box<Self>, outcome: Result<(), Error>);
}

struct Operation<T, F> {
    work: F,
    bytes: usize,
    result: Option<T>,
    result_sender: oneshot::Sender<Result<T, Error>>,
    _slot: OwnedSemaphorePermit,
}

impl<T: Send, F: FnMut(&mut WriteTransaction<'_>) -> Result<Step<T>, Error> + Send> Job for Operation<T, F> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, store: &mut WriteTransaction<'_>) -> Result<bool, Error> {
        self.result = match (self.work)(store)? {
            Step::Done(result) => Some(result),
            Step::Again => None,
        };
        Ok(self.result.is_some())
    }

    fn complete(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { result, result_sender, .. } = *self;
        let result = outcome.and_then(|()| result.ok_or_else(|| damaged("the result of an operation")));
        let _caller_is_gone = result_sender.send(result);
    }
}

impl Writer {
    pub(crate) fn start(
        engine: Arc<Engine>,
        clock: Arc<Clock>,
        watchers: Watchers,
        signals: broadcast::Sender<DeliverySignal>,
        processed: Arc<ProcessedCounter>,
        other_stores: OtherStores,
        fsync: Fsync,
    ) -> Result<Self, std::io::Error> {
        let queue = Arc::new(JobQueue::default());
        let writer_thread = WriterThread {
            queue: queue.clone(),
            engine,
            clock,
            watchers,
            signals,
            processed,
            other_stores,
            fsync,
            last_sync: Instant::now(),
            is_synced: true,
            read_ahead: ReadAheadCache::default(),
        };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || writer_thread.run())?;
        Ok(Self { queue, slots: Arc::new(Semaphore::new(QUEUED_JOBS_MAX)), thread: Mutex::new(Some(thread)) })
    }

    /// Runs an operation that writes this number of bytes. Once queued, it runs even if the caller
    /// no longer waits.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut WriteTransaction<'_>) -> Result<Step<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = || Error::Unavailable("the store is closed".to_owned());
        let late =
            || Error::Unavailable("the disk did not complete the operation in time; its outcome is unknown".to_owned());
        let result = async {
            let slot = self.slots.clone().acquire_owned().await.map_err(|_| gone())?;
            let (result_sender, receiver) = oneshot::channel();
            self.queue.put(Box::new(Operation { work, bytes, result: None, result_sender, _slot: slot }));
            receiver.await.map_err(|_| gone())?
        };
        timeout(OPERATION_TIMEOUT, result).await.map_err(|_| late())?
    }

    /// Waits until all queued operations are done, and stops the thread.
    pub(crate) fn close(&self) {
        self.queue.waiting.lock().is_closed = true;
        self.queue.arrived.notify_all();
        let thread = self.thread.lock().take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            error!("the writer thread of the store panicked");
        }
    }
}

impl JobQueue {
    fn put(&self, job: Box<dyn Job>) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_closed {
            waiting.jobs.push_back(job);
            self.arrived.notify_one();
        }
    }

    /// Returns the next batch. Returns an empty batch if none has arrived at `until`, and `None` if
    /// the queue is closed and empty.
    fn next_batch(&self, until: Option<Instant>) -> Option<Vec<Box<dyn Job>>> {
        let mut waiting = self.waiting.lock();
        while waiting.jobs.is_empty() {
            if waiting.is_closed {
                return None;
            }
            match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.arrived.wait(&mut waiting),
                Some(Duration::ZERO) => return Some(Vec::new()),
                Some(time) => {
                    self.arrived.wait_for(&mut waiting, time);
                }
            }
        }
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while batch.len() < BATCH_JOBS_MAX
            && let Some(job) = waiting.jobs.front()
        {
            bytes += job.bytes();
            if !batch.is_empty() && bytes > BATCH_BYTES_MAX {
                break;
            }
            batch.extend(waiting.jobs.pop_front());
        }
        Some(batch)
    }
}

/// The state of the writer thread.
struct WriterThread {
    queue: Arc<JobQueue>,
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    watchers: Watchers,
    signals: broadcast::Sender<DeliverySignal>,
    processed: Arc<ProcessedCounter>,
    other_stores: OtherStores,
    fsync: Fsync,
    last_sync: Instant,
    /// Whether all commits are on disk.
    is_synced: bool,
    /// Empty if the last transaction was aborted.
    read_ahead: ReadAheadCache,
}

/// Why a batch failed.
enum WriteFailure {
    /// Nothing was changed: the store cannot be written now.
    Store(Error),
    /// Nothing was changed, because one of the operations failed.
    Job(Error),
    /// The commit failed, so the outcome is unknown.
    Commit(Error),
}

impl WriterThread {
    fn run(mut self) {
        loop {
            let until = self.fsync.interval().filter(|_| !self.is_synced).map(|interval| self.last_sync + interval);
            match self.queue.next_batch(until) {
                Some(batch) if batch.is_empty() => self.sync(),
                Some(batch) => self.run_batch(batch),
                None => break,
            }
        }
        if !self.is_synced {
            self.sync();
        }
    }

    fn run_batch(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let attempt = catch_unwind(AssertUnwindSafe(|| self.try_batch(&mut batch)));
        match attempt.unwrap_or_else(|_| Err(WriteFailure::Job(panicked()))) {
            Ok(done) => {
                let mut again = Vec::new();
                for (job, is_done) in batch.into_iter().zip(done) {
                    if is_done { job.complete(Ok(())) } else { again.push(job) }
                }
                // They go after the operations that have arrived meanwhile, so that those run
                // between two steps.
                self.queue.waiting.lock().jobs.extend(again);
            }
            Err(WriteFailure::Job(_)) if batch.len() > 1 => {
                for job in batch {
                    self.run_batch(vec![job]);
                }
            }
            Err(WriteFailure::Store(error) | WriteFailure::Job(error) | WriteFailure::Commit(error)) => {
                for job in batch {
                    job.complete(Err(error.clone()));
                }
            }
        }
    }

    /// Runs a batch in one transaction. Returns for each operation whether it is complete.
    fn try_batch(&mut self, batch: &mut [Box<dyn Job>]) -> Result<Vec<bool>, WriteFailure> {
        let (opened, mut transaction) = self.engine.begin().map_err(WriteFailure::Store)?;
        let is_synced_commit = self.fsync.interval().is_none_or(|interval| self.last_sync.elapsed() >= interval);
        let durability = if is_synced_commit { Durability::Immediate } else { Durability::None };
        transaction.set_quick_repair(is_synced_commit && opened.disk.length() > QUICK_REPAIR_BYTES);
        transaction.set_durability(durability).map_err(|error| WriteFailure::Store(failure(error)))?;

        let read_ahead = mem::take(&mut self.read_ahead);
        let run = || {
            let mut store = WriteTransaction::begin(&transaction, &self.clock, self.other_stores.exist(), read_ahead)?;
            let mut done = Vec::with_capacity(batch.len());
            for job in batch.iter_mut() {
                // Panics are caught here, so that the transaction is aborted in order.
                let run = catch_unwind(AssertUnwindSafe(|| job.run(&mut store)));
                done.push(run.unwrap_or_else(|_| Err(panicked()))?);
            }
            let processed = store.processed;
            let (change, read_ahead) = store.finish()?;
            if change.is_some() && opened.disk.may_run_out_of_space() {
                reserve_space(&transaction)?;
            }
            Ok((done, change, processed, read_ahead))
        };
        let (ran, change, processed, read_ahead) = match run().map_err(WriteFailure::Job) {
            Ok((done, change, processed, read_ahead)) => (Ok(done), change, processed, read_ahead),
            Err(failure) => (Err(failure), None, Processed::default(), ReadAheadCache::default()),
        };
        // A transaction whose pages do not fit into the file must not be committed.
        let ran = ran.and_then(|done| opened.disk.write_back().map(|()| done).map_err(WriteFailure::Store));
        let has_changed = change.is_some();
        let Some(notifications) = change.filter(|_| ran.is_ok()) else {
            if !has_changed {
                self.read_ahead = read_ahead;
            }
            if let Err(error) = transaction.abort() {
                warn!(%error, "cannot abort a transaction");
            }
            opened.disk.discard_overflow();
            return ran;
        };
        transaction.commit().map_err(|error| WriteFailure::Commit(error.into()))?;
        self.processed.add(processed);
        self.read_ahead = read_ahead;
        self.is_synced = is_synced_commit;
        if is_synced_commit {
            self.last_sync = Instant::now();
        }
        for (queue, freed, older) in notifications.available {
            self.watchers.notify(&queue, freed, older);
        }
        for queue in notifications.deliveries {
            let _no_receiver = self.signals.send(DeliverySignal { queue, is_own: true });
        }
        ran
    }

    /// Writes all commits to disk.
    fn sync(&mut self) {
        let synced = self.engine.begin().and_then(|(_opened, transaction)| Ok(transaction.commit()?));
        if let Err(error) = synced {
            warn!(%error, "fsync failed; recent commits may not be durable");
        }
        // If the sync failed, it is not repeated immediately.
        self.last_sync = Instant::now();
        self.is_synced = true;
    }
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting.lock();
        waiting.is_closed = true;
        waiting.jobs.clear();
    }
}

fn panicked() -> Error {
    Error::Corrupt("the database engine or an operation panicked".to_owned())
}
