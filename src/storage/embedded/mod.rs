//! The embedded store: one file, in this process, durable without a server. Or the same in memory.
//!
//! Everything that changes the store is an operation that the writer runs (`writer.rs`); what only reads has a
//! transaction of its own, which keeps nobody waiting (`view.rs`). No operation acts on an unsettled queue: a
//! reader that finds something due has the writer settle it first. `keys.rs` says what is stored.

mod ahead;
mod check;
mod check_shards;
mod claims;
mod clock;
mod compact;
mod dead_letters;
mod disk;
mod engine;
mod failure;
mod inline;
mod keys;
mod leases;
mod located;
mod messages;
mod posting;
mod posts;
mod queues;
mod settle;
mod shards;
mod state;
mod tallies;
mod tenants;
mod turns;
mod upkeep;
mod view;
mod watch;
mod writer;
mod writing;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redb::{DatabaseError, ReadOnlyTable, StorageBackend};
use tokio::task::coop::consume_budget;

pub use engine::OpenError;

use self::clock::Clock;
use self::disk::Room;
use self::engine::Engine;
use self::keys::Slice;
use self::state::{Row, State};
use self::view::View;
use self::writer::{Step, Writer};
use self::writing::Writing;
use crate::domain::{ProjectId, QueueId};
use crate::storage::watch::Watchers;
use crate::storage::{Admission, Bounded, Error, Load};

/// Maximum number of operations in flight: two full batches of the writer, one of which is being written.
const IN_FLIGHT_MAX: usize = 512;

/// When what was acknowledged is on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fsync {
    /// Before it is acknowledged; operations that come side by side share the wait.
    #[default]
    Group,
    /// Within a second.
    Interval,
    /// Within a minute, or when the store is closed.
    Off,
}

impl Fsync {
    /// How long what was committed may not be on disk, if at all.
    fn interval(self) -> Option<Duration> {
        match self {
            Self::Group => None,
            Self::Interval => Some(Duration::from_secs(1)),
            Self::Off => Some(Duration::from_secs(60)),
        }
    }
}

/// A store in this process. Clones are the same store, which is closed with the last of them.
#[derive(Clone)]
pub struct EmbeddedStore {
    parts: Arc<Parts>,
}

struct Parts {
    engine: Arc<Engine>,
    writer: Writer,
    clock: Arc<Clock>,
    watchers: Watchers,
    admission: Arc<Admission>,
}

type Reading = View<ReadOnlyTable<Slice, Slice>>;

impl EmbeddedStore {
    /// The store in that folder, which is made if it is not there.
    pub fn open(folder: &Path, fsync: Fsync) -> Result<Self, OpenError> {
        Self::over(Engine::in_folder(folder)?, fsync)
    }

    /// The store in that folder, which must be there, with every page of its file verified.
    pub fn open_verified(folder: &Path) -> Result<Self, OpenError> {
        Self::over(Engine::verified_in_folder(folder)?, Fsync::Group)
    }

    /// Makes the file of the store in that folder as short as it can be; how long it was and is, in bytes.
    pub fn compact(folder: &Path) -> Result<(u64, u64), OpenError> {
        Engine::compact_in_folder(folder)
    }

    /// A store that lasts as long as the process does.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::over(Engine::in_memory()?, Fsync::Group)
    }

    /// A store on disks that tests make, one each time that it is opened.
    pub fn on_disk(
        disk: impl Fn() -> Result<Box<dyn StorageBackend>, DatabaseError> + Send + Sync + 'static,
        fsync: Fsync,
    ) -> Result<Self, OpenError> {
        let source = move || disk().map(|disk| (disk, Room::Unknown));
        Self::over(Engine::over("the disk".to_owned(), source)?, fsync)
    }

    fn over(engine: Engine, fsync: Fsync) -> Result<Self, OpenError> {
        let (engine, clock, watchers) = (Arc::new(engine), Arc::new(Clock::default()), Watchers::default());
        let writer = Writer::start(engine.clone(), clock.clone(), watchers.clone(), fsync)
            .map_err(|reason| OpenError::Io { place: "the store's writer".to_owned(), reason })?;
        let admission = Admission::new(IN_FLIGHT_MAX);
        Ok(Self { parts: Arc::new(Parts { engine, writer, clock, watchers, admission }) })
    }

    /// Moves the clock of one queue: `offset_us` is added to the machine's.
    #[cfg(feature = "movable-clock")]
    pub fn set_clock(&self, queue: &QueueId, offset_us: i64) {
        self.parts.clock.set(queue, offset_us);
    }

    /// Has the writer carry out an operation that brings so many bytes.
    async fn write<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnMut(&mut Writing<'_>) -> Result<Step<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.parts.writer.write(bytes, work).await
    }

    /// The same with one on a queue that has nothing left to settle; `absent` without such a queue. The work gets
    /// the number of the queue's contents and the time.
    async fn write_settled<T: Clone + Send + 'static>(
        &self,
        queue: &QueueId,
        absent: T,
        mut work: impl FnMut(&mut Writing<'_>, u64, u64) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.write_settled_with(queue, absent, move |store, row, now_us| work(store, row.number, now_us)).await
    }

    async fn write_settled_with<T: Clone + Send + 'static>(
        &self,
        queue: &QueueId,
        absent: T,
        mut work: impl FnMut(&mut Writing<'_>, &Row, u64) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.write_settled_in_steps(queue, absent, move |store, row, now_us| work(store, row, now_us).map(Step::Done))
            .await
    }

    async fn write_settled_in_steps<T: Clone + Send + 'static>(
        &self,
        queue: &QueueId,
        absent: T,
        mut work: impl FnMut(&mut Writing<'_>, &Row, u64) -> Result<Step<T>, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let queue = queue.clone();
        self.write(0, move |store| {
            let now_us = store.now_us(&queue);
            let Some(row) = store.row(&queue)? else {
                return Ok(Step::Done(absent.clone()));
            };
            if store.settle(&row, now_us)? {
                return Ok(Step::Again);
            }
            work(store, &row, now_us)
        })
        .await
    }

    /// Reads the store as it is at one moment.
    async fn read<T: Send + 'static>(
        &self,
        look: impl Fn(&Reading) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<T, Error> {
        let look = Arc::new(look);
        match self.read_once(look.clone()).await {
            // After a failure of the disk the writer opens the engine again, if somebody comes to write.
            Err(Error::Unavailable(_)) => {
                self.write(0, |_store| Ok(Step::Done(()))).await?;
                self.read_once(look).await
            }
            seen => seen,
        }
    }

    async fn read_once<T: Send + 'static>(
        &self,
        look: Arc<impl Fn(&Reading) -> Result<T, Error> + Send + Sync + 'static>,
    ) -> Result<T, Error> {
        // What never waits must let others have their turn all the same.
        consume_budget().await;
        inline::read(|| self.parts.engine.look(&*look))
    }

    /// Reads the store at one moment, for as long as it takes.
    async fn read_at_length<T: Send + 'static>(
        &self,
        look: impl Fn(&Reading) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let engine = self.parts.engine.clone();
        let seen = tokio::task::spawn_blocking(move || engine.look(look));
        seen.await.map_err(|_| Error::Corrupt("a reader broke down".to_owned()))?
    }

    /// Reads a queue that has nothing left to settle; `None` without such a queue. The look gets the number of the
    /// queue's contents and the time.
    async fn read_settled<T: Send + 'static>(
        &self,
        queue: &QueueId,
        look: impl Fn(&Reading, u64, u64) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Option<T>, Error> {
        self.read_settled_with(queue, move |view, row, _state, now_us| look(view, row.number, now_us)).await
    }

    async fn read_settled_with<T: Send + 'static>(
        &self,
        queue: &QueueId,
        look: impl Fn(&Reading, &Row, &State, u64) -> Result<T, Error> + Send + Sync + 'static,
    ) -> Result<Option<T>, Error> {
        let look = Arc::new(look);
        loop {
            let (look, clock, of) = (look.clone(), self.parts.clock.clone(), queue.clone());
            let seen = self.read(move |view| {
                let Some(row) = view.row(&of)? else {
                    return Ok(Some(None));
                };
                let (state, now_us) = (view.stored_state(row.number)?, clock.now_us(&of));
                if view.is_unsettled(row.number, &state, now_us)? {
                    return Ok(None);
                }
                look(view, &row, &state, now_us).map(|seen| Some(Some(seen)))
            });
            if let Some(seen) = seen.await? {
                return Ok(seen);
            }
            self.write_settled(queue, (), |_store, _number, _now_us| Ok(())).await?;
        }
    }
}

impl Bounded for EmbeddedStore {
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

impl Drop for Parts {
    fn drop(&mut self) {
        self.writer.close();
    }
}
