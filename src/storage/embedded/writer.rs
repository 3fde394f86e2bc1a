//! The writer: one thread, which runs all operations that wait in one transaction, commits it, and then answers each.
//!
//! Nothing waits for company: what comes while one batch is being written is the next one. If an operation fails, the
//! transaction is given up and each runs again in one of its own, so that none fails its neighbours.

use std::collections::VecDeque;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use redb::Durability;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::timeout;
use tracing::{error, warn};

use super::ahead::Ahead;
use super::clock::Clock;
use super::engine::Engine;
use super::writing::{Writing, make_room};
use super::{Fsync, failure};
use crate::storage::Error;
use crate::storage::watch::Watchers;

/// A batch takes on no further operation when it has so many.
const BATCH_JOBS_MAX: usize = 256;
/// Nor when they have brought so many bytes.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// So many operations may wait; further ones wait for their turn to wait.
const WAITING_MAX: usize = 4_096;
/// How long an operation may take until its caller is told that nobody knows.
const PATIENCE: Duration = Duration::from_secs(10);

/// From this length of the file on each commit says also which of its pages are free. Without that a store that
/// was not closed in order is read as a whole when it is opened, which takes a second for half a gigabyte; with it
/// a commit takes two syncs and twice as long.
const QUICK_REPAIR_BYTES: u64 = 256 << 20;

/// How far a run of an operation came.
pub(super) enum Step<T> {
    /// It is done.
    Done(T),
    /// It has done some of what comes first, and runs again in another transaction.
    Again,
}

/// Operations on their way to the store.
pub(super) struct Writer {
    inbox: Arc<Inbox>,
    room: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Inbox {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Box<dyn Job>>,
    is_closed: bool,
}

/// An operation, whatever its answer is.
trait Job: Send {
    fn bytes(&self) -> usize;

    /// Runs it; whether it is done.
    fn run(&mut self, store: &mut Writing<'_>) -> Result<bool, Error>;

    /// Tells its caller what it has come to.
    fn answer(self: Box<Self>, outcome: Result<(), Error>);
}

struct Operation<T, F> {
    work: F,
    bytes: usize,
    answer: Option<T>,
    tell: oneshot::Sender<Result<T, Error>>,
    _room: OwnedSemaphorePermit,
}

impl<T: Send, F: FnMut(&mut Writing<'_>) -> Result<Step<T>, Error> + Send> Job for Operation<T, F> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn run(&mut self, store: &mut Writing<'_>) -> Result<bool, Error> {
        self.answer = match (self.work)(store)? {
            Step::Done(answer) => Some(answer),
            Step::Again => None,
        };
        Ok(self.answer.is_some())
    }

    fn answer(self: Box<Self>, outcome: Result<(), Error>) {
        let Self { answer, tell, .. } = *self;
        let answer = outcome.and_then(|()| answer.ok_or_else(|| failure::damaged("an answer")));
        let _nobody_waits_any_more = tell.send(answer);
    }
}

impl Writer {
    pub(super) fn start(
        engine: Arc<Engine>,
        clock: Arc<Clock>,
        watchers: Watchers,
        fsync: Fsync,
    ) -> Result<Self, std::io::Error> {
        let inbox = Arc::new(Inbox::default());
        let desk = Desk {
            inbox: inbox.clone(),
            engine,
            clock,
            watchers,
            fsync,
            last_sync: Instant::now(),
            is_synced: true,
            ahead: Ahead::default(),
        };
        let thread = thread::Builder::new().name("store-writer".to_owned()).spawn(move || desk.work())?;
        Ok(Self { inbox, room: Arc::new(Semaphore::new(WAITING_MAX)), thread: Mutex::new(Some(thread)) })
    }

    /// Has an operation carried out that brings so many bytes. What has begun goes on if nobody waits for it any more.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut Writing<'_>) -> Result<Step<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let gone = || Error::Unavailable("the store is closed".to_owned());
        let late = || Error::Unavailable("the disk takes long".to_owned());
        let answer = async {
            let room = self.room.clone().acquire_owned().await.map_err(|_| gone())?;
            let (tell, told) = oneshot::channel();
            self.inbox.put(Box::new(Operation { work, bytes, answer: None, tell, _room: room }));
            told.await.map_err(|_| gone())?
        };
        timeout(PATIENCE, answer).await.map_err(|_| late())?
    }

    /// Waits until everything that was begun is done.
    pub(super) fn close(&self) {
        self.inbox.lock().is_closed = true;
        self.inbox.arrived.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            error!("the store's writer has died");
        }
    }
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, job: Box<dyn Job>) {
        let mut waiting = self.lock();
        if !waiting.is_closed {
            waiting.jobs.push_back(job);
            self.arrived.notify_one();
        }
    }

    /// What waits, as much as makes a batch; nothing if nothing has come until then, `None` when it is over.
    fn next_batch(&self, until: Option<Instant>) -> Option<Vec<Box<dyn Job>>> {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() {
            if waiting.is_closed {
                return None;
            }
            waiting = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Some(Vec::new()),
                Some(time) => self.arrived.wait_timeout(waiting, time).unwrap_or_else(PoisonError::into_inner).0,
            };
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

/// The writer's side of the inbox.
struct Desk {
    inbox: Arc<Inbox>,
    engine: Arc<Engine>,
    clock: Arc<Clock>,
    watchers: Watchers,
    fsync: Fsync,
    last_sync: Instant,
    /// Whether all that was committed is on disk.
    is_synced: bool,
    /// Nothing, if the last transaction was given up.
    ahead: Ahead,
}

/// Why a batch was not carried out.
enum Failure {
    /// Nothing has happened: the store cannot be written to now.
    Store(Error),
    /// Nothing has happened, because of one of the operations.
    Job(Error),
    /// It may have happened.
    Commit(Error),
}

impl Desk {
    fn work(mut self) {
        loop {
            let until = self.fsync.interval().filter(|_| !self.is_synced).map(|interval| self.last_sync + interval);
            match self.inbox.next_batch(until) {
                Some(batch) if batch.is_empty() => self.sync(),
                Some(batch) => self.carry_out(batch),
                None => break,
            }
        }
        if !self.is_synced {
            self.sync();
        }
    }

    fn carry_out(&mut self, mut batch: Vec<Box<dyn Job>>) {
        let attempt = catch_unwind(AssertUnwindSafe(|| self.attempt(&mut batch)));
        match attempt.unwrap_or_else(|_| Err(Failure::Job(panicked()))) {
            Ok(done) => {
                let mut again = Vec::new();
                for (job, is_done) in batch.into_iter().zip(done) {
                    if is_done { job.answer(Ok(())) } else { again.push(job) }
                }
                // Behind what has come meanwhile, which has its turn between two steps.
                self.inbox.lock().jobs.extend(again);
            }
            Err(Failure::Job(_)) if batch.len() > 1 => {
                for job in batch {
                    self.carry_out(vec![job]);
                }
            }
            Err(Failure::Store(error) | Failure::Job(error) | Failure::Commit(error)) => {
                for job in batch {
                    job.answer(Err(error.clone()));
                }
            }
        }
    }

    /// Runs all of a batch in one transaction; which operations are done.
    fn attempt(&mut self, batch: &mut [Box<dyn Job>]) -> Result<Vec<bool>, Failure> {
        let (opened, mut transaction) = self.engine.begin().map_err(Failure::Store)?;
        let syncs = self.fsync.interval().is_none_or(|interval| self.last_sync.elapsed() >= interval);
        let durability = if syncs { Durability::Immediate } else { Durability::None };
        transaction.set_quick_repair(syncs && opened.disk.length() > QUICK_REPAIR_BYTES);
        transaction.set_durability(durability).map_err(|error| Failure::Store(failure::failure(error)))?;

        let ahead = mem::take(&mut self.ahead);
        let run = || {
            let mut store = Writing::begin(&transaction, &self.clock, ahead)?;
            let mut done = Vec::with_capacity(batch.len());
            for job in batch.iter_mut() {
                // Caught here, so that the transaction is given up in order.
                let run = catch_unwind(AssertUnwindSafe(|| job.run(&mut store)));
                done.push(run.unwrap_or_else(|_| Err(panicked()))?);
            }
            let (change, ahead) = store.finish()?;
            if change.is_some() && opened.disk.may_be_short() {
                make_room(&transaction)?;
            }
            Ok((done, change, ahead))
        };
        let (ran, change, ahead) = match run().map_err(Failure::Job) {
            Ok((done, change, ahead)) => (Ok(done), change, ahead),
            Err(failure) => (Err(failure), None, Ahead::default()),
        };
        // What the file had no room for must not be committed.
        let ran = ran.and_then(|done| opened.disk.settle().map(|()| done).map_err(Failure::Store));
        let has_changed = change.is_some();
        let Some(news) = change.filter(|_| ran.is_ok()) else {
            if !has_changed {
                self.ahead = ahead;
            }
            if let Err(error) = transaction.abort() {
                warn!(%error, "a transaction was not given up in order");
            }
            opened.disk.forget();
            return ran;
        };
        transaction.commit().map_err(|error| Failure::Commit(error.into()))?;
        self.ahead = ahead;
        self.is_synced = syncs;
        if syncs {
            self.last_sync = Instant::now();
        }
        for (queue, freed, older) in news {
            self.watchers.tell(&queue, freed, older);
        }
        ran
    }

    /// Has everything that was committed put on disk.
    fn sync(&mut self) {
        let synced = self.engine.begin().and_then(|(_opened, transaction)| Ok(transaction.commit()?));
        if let Err(error) = synced {
            warn!(%error, "what was committed is not on disk");
        }
        // Not at once again, if it failed.
        self.last_sync = Instant::now();
        self.is_synced = true;
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let mut waiting = self.inbox.lock();
        waiting.is_closed = true;
        waiting.jobs.clear();
    }
}

fn panicked() -> Error {
    Error::Corrupt("the engine or an operation broke down".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures::future::join_all;

    use super::*;
    use crate::storage::embedded::EmbeddedStore;

    #[tokio::test]
    async fn operations_that_run_again_let_others_have_their_turn() {
        let store = EmbeddedStore::in_memory().unwrap();
        let has_run = Arc::new(AtomicBool::new(false));
        let again = (0..2 * BATCH_JOBS_MAX).map(|_| {
            let has_run = has_run.clone();
            store.write(0, move |_| Ok(if has_run.load(Ordering::Relaxed) { Step::Done(()) } else { Step::Again }))
        });
        let flag = has_run.clone();
        let other = async {
            // Behind all of them.
            tokio::task::yield_now().await;
            let set = move |_: &mut Writing<'_>| {
                flag.store(true, Ordering::Relaxed);
                Ok(Step::Done(()))
            };
            store.write(0, set).await
        };

        let (outcomes, other) = tokio::join!(join_all(again), other);

        assert_eq!(other, Ok(()));
        assert!(outcomes.iter().all(Result::is_ok));
    }
}
