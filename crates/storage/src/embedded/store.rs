//! The store as a whole: opens it, and runs operations on it.

use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use redb::{DatabaseError, StorageBackend};
use tokio::sync::broadcast;
use tokio::task::consume_budget;

use crate::deliveries::SIGNALS_MAX;
use crate::embedded::backup::{self, RestoreError};
use crate::embedded::engine::clock::Clock;
use crate::embedded::engine::disk::FreeSpace;
use crate::embedded::engine::error::OpenError;
use crate::embedded::engine::file;
use crate::embedded::engine::{Engine, inline};
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::read::ReadView;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::{Fsync, Step, Writer};
use crate::monitoring::ProcessedCounter;
use crate::moved_messages::OtherStores;
use crate::outbox::Forwarders;
use crate::watch::Watchers;
use crate::{Admission, AdmissionControl, DeliverySignal, Destinations, DiskUsage, Error, Load, Monitoring, Processed};
use sukkal_domain::{ProjectId, QueueId};

/// Maximum number of operations in flight: two full batches, one of which is being written.
const IN_FLIGHT_MAX: usize = 512;

/// Where the engine keeps its pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Medium {
    Disk,
    Memory,
}

/// A store in this process. Clones share one store, which is closed when the last one is dropped.
#[derive(Clone)]
pub struct EmbeddedStore {
    pub(super) parts: Arc<StoreParts>,
}

pub(super) struct StoreParts {
    pub(super) engine: Arc<Engine>,
    writer: Writer,
    pub(super) clock: Arc<Clock>,
    pub(super) watchers: Watchers,
    pub(super) signals: broadcast::Sender<DeliverySignal>,
    pub(super) other_stores: OtherStores,
    pub(super) forwarders: Forwarders,
    processed: Arc<ProcessedCounter>,
    admission: Arc<Admission>,
    /// Whether a change is on disk before its operation returns.
    pub(super) is_synced: bool,
}

impl EmbeddedStore {
    /// Opens the store in that folder, and creates it if it does not exist.
    pub fn open(folder: &Path, fsync: Fsync) -> Result<Self, OpenError> {
        Self::over(Engine::in_folder(folder)?, fsync, Medium::Disk)
    }

    /// Returns whether there is a store in that folder.
    #[must_use]
    pub fn exists(folder: &Path) -> bool {
        folder.join(file::FILE).exists()
    }

    /// Opens the store in that folder, which must exist, and verifies every page of its file.
    pub fn open_verified(folder: &Path) -> Result<Self, OpenError> {
        Self::over(Engine::verified_in_folder(folder)?, Fsync::Group, Medium::Disk)
    }

    /// Makes the file of the store in that folder as short as possible. Returns its length before
    /// and after, in bytes.
    pub fn compact(folder: &Path) -> Result<(u64, u64), OpenError> {
        Engine::compact_in_folder(folder)
    }

    /// Creates a store from a backup, in a folder that has none. Returns the number of records.
    pub fn restore(backup: impl Read, folder: &Path) -> Result<u64, RestoreError> {
        backup::restore(backup, folder)
    }

    /// Opens a store that exists only in this process.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::over(Engine::in_memory()?, Fsync::Group, Medium::Memory)
    }

    /// Opens a store on disks from a test. `disk` is called each time that the engine is opened.
    pub fn on_disk(
        disk: impl Fn() -> Result<Box<dyn StorageBackend>, DatabaseError> + Send + Sync + 'static,
        fsync: Fsync,
    ) -> Result<Self, OpenError> {
        let source = move || disk().map(|disk| (disk, FreeSpace::Unknown));
        Self::over(Engine::over("the disk".to_owned(), source)?, fsync, Medium::Disk)
    }

    fn over(engine: Engine, fsync: Fsync, medium: Medium) -> Result<Self, OpenError> {
        let (engine, clock, watchers) = (Arc::new(engine), Arc::new(Clock::default()), Watchers::default());
        let (processed, signals) = (Arc::<ProcessedCounter>::default(), broadcast::Sender::new(SIGNALS_MAX));
        let (other_stores, forwarders) = (OtherStores::default(), Forwarders::default());
        let (engine_of, clock_of, watchers_of) = (engine.clone(), clock.clone(), watchers.clone());
        let (signals_of, processed_of, others_of) = (signals.clone(), processed.clone(), other_stores.clone());
        let writer = Writer::start(engine_of, clock_of, watchers_of, signals_of, processed_of, others_of, fsync)
            .map_err(|reason| OpenError::Io { place: "the writer thread of the store".to_owned(), reason })?;
        let admission = Admission::new(IN_FLIGHT_MAX);
        let is_synced = fsync == Fsync::Group && medium == Medium::Disk;
        let parts = StoreParts {
            engine,
            writer,
            clock,
            watchers,
            signals,
            other_stores,
            forwarders,
            processed,
            admission,
            is_synced,
        };
        Ok(Self { parts: Arc::new(parts) })
    }

    /// Makes this one of several stores: messages that leave its queues can move to all queues of
    /// these destinations. Later calls have no effect.
    pub fn set_destinations(&self, destinations: Weak<dyn Destinations>) {
        self.parts.other_stores.set(destinations);
    }

    /// Moves the clock of one queue, for tests: `offset_us` is added to the machine's time.
    pub fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        self.parts.clock.set(queue, offset_us);
    }

    /// Runs an operation on the writer thread. `bytes` is the size of the data that it writes.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut WriteTransaction<'_>) -> Result<Step<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.parts.writer.write(bytes, work).await
    }

    /// Runs an operation on a queue whose due changes have been applied. Returns `absent` if the
    /// queue does not exist. `work` gets the queue's row and the time.
    pub(super) async fn write_up_to_date<T: Clone + Send + 'static>(
        &self,
        queue: &QueueId,
        absent: T,
        work: impl FnMut(&mut WriteTransaction<'_>, &QueueRow, u64) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.write_bytes_up_to_date(queue, 0, absent, work).await
    }

    /// Runs an operation that writes this number of bytes on a queue whose due changes have been
    /// applied.
    pub(super) async fn write_bytes_up_to_date<T: Clone + Send + 'static>(
        &self,
        queue: &QueueId,
        bytes: usize,
        absent: T,
        mut work: impl FnMut(&mut WriteTransaction<'_>, &QueueRow, u64) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let queue = queue.clone();
        self.write(bytes, move |store| {
            let now_us = store.now_us(&queue);
            let Some(row) = store.row(&queue)? else {
                return Ok(Step::Done(absent.clone()));
            };
            if store.apply_due_changes(&row, now_us)? {
                return Ok(Step::Again);
            }
            work(store, &row, now_us).map(Step::Done)
        })
        .await
    }

    /// Reads a consistent state of the store.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        query: impl Fn(&ReadView) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let query = Arc::new(query);
        match self.read_once(query.clone()).await {
            // The engine may have stopped after a failure of its disk. A write opens it again.
            Err(Error::Unavailable(_)) => {
                self.write(0, |_store| Ok(Step::Done(()))).await?;
                self.read_once(query).await
            }
            result => result,
        }
    }

    pub(super) async fn read_once<T: Send + 'static>(
        &self,
        query: Arc<impl Fn(&ReadView) -> Result<T, Error> + Send + Sync + 'static>,
    ) -> Result<T, Error> {
        // A read never yields by itself, so it must give other tasks a chance to run.
        consume_budget().await;
        inline::read(|| self.parts.engine.read(|transaction| query(&ReadView::of(transaction)?)))
    }

    /// Reads a consistent state of the store on a thread that may be blocked for long.
    pub(super) async fn read_on_blocking_thread<T: Send + 'static>(
        &self,
        query: impl Fn(&ReadView) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let engine = self.parts.engine.clone();
        let result = tokio::task::spawn_blocking(move || engine.read(|transaction| query(&ReadView::of(transaction)?)));
        result.await.map_err(|_| Error::Corrupt("a read operation panicked".to_owned()))?
    }

    /// Reads a queue whose due changes have been applied. Returns `None` if the queue does not
    /// exist. `query` gets the queue's row and state, and the time.
    pub(super) async fn read_up_to_date<T: Send + 'static>(
        &self,
        queue: &QueueId,
        query: impl Fn(&ReadView, &QueueRow, &QueueState, u64) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Option<T>, Error> {
        let query = Arc::new(query);
        loop {
            let (query, clock, queue_id) = (query.clone(), self.parts.clock.clone(), queue.clone());
            let result = self.read(move |view| {
                let Some(row) = view.row(&queue_id)? else {
                    return Ok(Some(None));
                };
                let (state, now_us) = (view.stored_state(row.number)?, clock.now_us(&queue_id));
                if view.has_due_changes(row.number, &state, now_us)? {
                    return Ok(None);
                }
                query(view, &row, &state, now_us).map(|result| Some(Some(result)))
            });
            if let Some(result) = result.await? {
                return Ok(result);
            }
            self.write_up_to_date(queue, (), |_store, _row, _now_us| Ok(())).await?;
        }
    }
}

#[async_trait]
impl AdmissionControl for EmbeddedStore {
    fn queue_admission(&self, _queue: &QueueId) -> Arc<Admission> {
        self.parts.admission.clone()
    }

    fn project_admission(&self, _project: &ProjectId) -> Arc<Admission> {
        self.parts.admission.clone()
    }

    fn load(&self) -> Load {
        self.parts.admission.load()
    }
}

impl Monitoring for EmbeddedStore {
    fn processed(&self) -> Processed {
        self.parts.processed.get()
    }

    fn disk_usage(&self) -> Option<DiskUsage> {
        self.parts.engine.disk_usage()
    }
}

impl Drop for StoreParts {
    fn drop(&mut self) {
        self.writer.close();
    }
}
