//! What a store reports for monitoring: the trait and its results.

use std::ops::AddAssign;

use parking_lot::Mutex;

use sukkal_domain::PoolName;

/// Reports the figures that a store knows without asking its server.
pub trait Monitoring: Send + Sync {
    /// Returns how many messages this process has processed in the store since it opened the store.
    fn processed(&self) -> Processed;

    /// Returns the size of the store's file and the free space of its disk, or `None` if the store
    /// has no file.
    fn disk_usage(&self) -> Option<DiskUsage>;

    /// Returns the states of the pools, in the order of their names; `None` for a single store.
    fn pools(&self) -> Option<Vec<PoolState>> {
        None
    }
}

/// Number of messages that were processed, by what has happened to them. Messages that are removed
/// together with their queue, or by a purge, are not counted, nor are those that a redrive moves.
///
/// If the reply to a command is lost, the driver repeats the command, and the messages of the first
/// attempt may be missing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processed {
    /// Number of messages stored by posts. A post that is repeated under its idempotency key counts
    /// once.
    pub posted: u64,
    /// Number of messages delivered by claims and pops. A message counts each time.
    pub claimed: u64,
    /// Number of messages deleted by clients, including pops.
    pub deleted: u64,
    /// Number of expired messages that were removed.
    pub expired: u64,
    /// Number of messages moved to a dead-letter queue.
    pub dead_lettered: u64,
}

/// The disk of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskUsage {
    /// Size of the store's file, in bytes.
    pub file_bytes: u64,
    /// Free space of the file system that contains the file, in bytes.
    pub free_bytes: u64,
}

/// The state of a pool, as far as this process knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolState {
    /// The name of the pool.
    pub name: PoolName,
    /// Why the pool cannot be used; `None` if it can.
    pub failure: Option<String>,
}

/// Counts the messages that a store has processed.
#[derive(Debug, Default)]
pub(super) struct ProcessedCounter(Mutex<Processed>);

impl ProcessedCounter {
    pub(super) fn add(&self, processed: Processed) {
        *self.0.lock() += processed;
    }

    pub(super) fn get(&self) -> Processed {
        *self.0.lock()
    }
}

impl AddAssign for Processed {
    fn add_assign(&mut self, other: Self) {
        self.posted += other.posted;
        self.claimed += other.claimed;
        self.deleted += other.deleted;
        self.expired += other.expired;
        self.dead_lettered += other.dead_lettered;
    }
}
