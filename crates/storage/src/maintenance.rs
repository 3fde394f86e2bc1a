//! The maintenance of a store, its health and its integrity: the trait, its arguments and its
//! results.

use std::fmt::Display;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::sleep;

use super::error::Error;
use super::pools::PoolStore;
use super::quotas::QuotaStore;
use sukkal_domain::QueueId;

/// Pause between two maintenance steps, which leaves the store to other operations.
const STEP_PAUSE: Duration = Duration::from_millis(5);
/// Maximum number of findings reported, and of repairs reported.
const FINDINGS_MAX: usize = 100;

/// Maintains a store, and reports its health.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Succeeds if the store replies.
    async fn ping(&self) -> Result<(), Error>;

    /// Succeeds if the store replies and accepts writes. Changes no data.
    async fn probe(&self) -> Result<(), Error>;

    /// Returns whether a write has failed because the disk is full, and no later [`Self::probe`]
    /// has succeeded.
    fn has_full_disk(&self) -> bool;

    /// Completes, with the reason, when the store turns out to have a kind or a layout that this
    /// release cannot use. A store for which this cannot happen never completes.
    async fn becomes_unusable(&self) -> String {
        std::future::pending().await
    }

    /// Does the maintenance that is due, and returns the number of queues visited.
    ///
    /// Reclaims expired messages in queues that no client uses, and repairs what crashes have left
    /// behind. The caller calls this again after each pause of the schedule. Where several
    /// processes share a store, one at a time does the work.
    async fn maintain(&self, _schedule: &Schedule) -> Result<u64, Error> {
        let (mut steps, mut reached) = (0, None);
        loop {
            reached = self.maintain_step(reached.as_ref()).await?;
            if reached.is_none() {
                return Ok(steps);
            }
            steps += 1;
            sleep(STEP_PAUSE).await;
        }
    }

    /// Does one step of a walk over all queues: maintains the next few queues after `after`.
    ///
    /// Returns the last queue visited, or `None` at the end of the walk. Any number of processes
    /// may do this at the same time.
    async fn maintain_step(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error>;

    /// Verifies the whole store: each message is in one state, is counted once and has a unique
    /// rank, and every record can be read.
    async fn check(&self) -> Result<Check, Error>;

    /// Verifies the whole store as [`Self::check`] does, and repairs what it can. Metadata and
    /// subscriptions that cannot be read are set aside: their bytes are kept, and the queue goes on
    /// with default metadata and without these subscriptions. A policy is made from the metadata
    /// again.
    async fn repair(&self) -> Result<Check, Error> {
        self.check().await
    }

    /// Gives the store the layout that this release writes. Returns whether it had another one. A
    /// store that one process uses has it since that process opened it.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] if processes of an earlier release use the store, because they would
    /// damage data of this layout. Nothing is changed then.
    async fn upgrade(&self) -> Result<bool, Error> {
        Ok(false)
    }

    /// Begins a backup of the whole store as it is now.
    fn begin_backup(&self) -> Result<BackupStart, Error> {
        Ok(BackupStart::OtherTools)
    }
}

/// The parts of a backup. Each is read from the store on the thread that asks for it.
pub type Backup = Box<dyn Iterator<Item = Result<Vec<u8>, Error>> + Send>;

/// The outcome of beginning a backup.
pub enum BackupStart {
    /// The parts are to be read.
    Begun(Backup),
    /// Another backup is being made.
    Running,
    /// The store's own tools make backups.
    OtherTools,
}

/// The pauses of the maintenance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Pause between two rounds of due maintenance.
    pub pause: Duration,
    /// Pause between two walks over all queues.
    pub walk: Duration,
}

/// Reads the quotas and the pools of a store, and records that they cannot be read.
pub(super) async fn check_lists(store: &(impl QuotaStore + PoolStore), check: &mut Check) -> Result<(), Error> {
    for (name, read) in
        [("the quotas", store.list_quotas(None).await.map(drop)), ("the pools", store.load_pools(None).await.map(drop))]
    {
        match read {
            Err(Error::Corrupt(reason)) => check.add_finding(name, reason),
            read => read?,
        }
    }
    Ok(())
}

/// The result of verifying a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// Number of queues.
    pub queues: u64,
    /// Number of messages in all queues.
    pub messages: u64,
    /// The errors found that were not repaired; the first hundred.
    pub findings: Vec<String>,
    /// The errors that were repaired; the first hundred.
    pub repaired: Vec<String>,
}

impl Check {
    /// Adds the results of verifying another store.
    pub(super) fn add(&mut self, other: Self) {
        self.queues += other.queues;
        self.messages += other.messages;
        self.findings.extend(other.findings);
        self.repaired.extend(other.repaired);
        self.findings.truncate(FINDINGS_MAX);
        self.repaired.truncate(FINDINGS_MAX);
    }

    /// Records an error in the given object.
    pub(super) fn add_finding(&mut self, of: impl Display, finding: impl Display) {
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(format!("{of}: {finding}"));
        }
    }

    /// Records an error in the given object that was repaired.
    pub(super) fn add_repair(&mut self, of: impl Display, finding: impl Display) {
        if self.repaired.len() < FINDINGS_MAX {
            self.repaired.push(format!("{of}: {finding}"));
        }
    }
}
