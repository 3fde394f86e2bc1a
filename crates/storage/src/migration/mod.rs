//! Copies a whole store into an empty one: the traits, and the steps.
//!
//! The source is read twice, as a stream of chunks. The target stores them the first time, and
//! compares them with what it has stored the second time. Then the integrity of the target is
//! verified, as that of the source was before.
//!
//! From the first step to the last one, the target has a mark. No process can use it as a store
//! until the mark is removed. A migration that was interrupted begins anew: it removes what it
//! finds under a mark of its own. So no step needs to know how far an earlier run has come.

mod items;

use async_trait::async_trait;
use thiserror::Error as ThisError;
use tokio::sync::mpsc;
use uuid::Uuid;

pub use items::Chunk;
pub(super) use items::{Fairness, Item, MessageSet, QueueParts, Totals};

use super::error::Error;
use super::maintenance::{Check, Maintenance};
use super::tokens::TOKENS;

/// Number of chunks that are read ahead.
const CHUNKS_AHEAD: usize = 2;

/// A store that can be copied. No other process uses it meanwhile.
#[async_trait]
pub trait MigrationSource: Maintenance {
    /// Returns the id by which a repeated migration recognizes its target. The store keeps it.
    async fn migration_id(&self) -> Result<Uuid, Error>;

    /// Returns whether the store is a management store with pools, or has messages on their way to
    /// them.
    async fn has_pools(&self) -> Result<bool, Error>;

    /// Sends everything in the store, in the same chunks each time. Fails if the receiver is gone.
    async fn export(&self, chunks: mpsc::Sender<Chunk>) -> Result<(), Error>;
}

/// A store that everything is copied into.
#[async_trait]
pub trait MigrationTarget {
    /// Returns whether an earlier run has completed the migration.
    async fn is_complete(&self) -> Result<bool, Error>;

    /// Marks the target as incomplete, and removes what an earlier run of the same migration has
    /// left.
    async fn begin(&mut self) -> Result<(), Error>;

    /// Stores the items of a chunk.
    async fn store(&mut self, chunk: Chunk) -> Result<(), Error>;

    /// Compares the items of a chunk with those that are stored. After the last chunk of a queue,
    /// also compares their number. Returns the name of the first thing that differs.
    async fn compare(&mut self, chunk: Chunk) -> Result<Option<String>, Error>;

    /// Verifies the integrity of all that is stored.
    async fn verify(&self) -> Result<Check, Error>;

    /// Removes the mark: from now on, processes can use the target.
    async fn complete(&mut self) -> Result<(), Error>;
}

/// How many of each kind were copied or compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queues.
    pub queues: u64,
    /// Messages in all queues.
    pub messages: u64,
    /// Live claims.
    pub claims: u64,
    /// Subscriptions.
    pub subscriptions: u64,
    /// Messages to deliver to subscribers again.
    pub retries: u64,
    /// Tasks, running or ended.
    pub tasks: u64,
    /// Stored outcomes of posts with an idempotency key.
    pub outcomes: u64,
    /// Tokens.
    pub tokens: u64,
}

impl Counts {
    fn add(&mut self, chunk: &Chunk) {
        for item in &chunk.items {
            match item {
                Item::Queue(_) => self.queues += 1,
                Item::Message { .. } => self.messages += 1,
                Item::Claim { .. } => self.claims += 1,
                Item::Subscription { .. } => self.subscriptions += 1,
                Item::Retry { .. } => self.retries += 1,
                Item::Task { .. } => self.tasks += 1,
                Item::Outcome { .. } => self.outcomes += 1,
                Item::Row { table, .. } => self.tokens += u64::from(table.tag == TOKENS.tag),
                Item::Progress { .. } | Item::Attempt { .. } | Item::Tombstone { .. } => {}
            }
        }
    }
}

/// A step of a migration that has succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MigrationStep {
    /// The source was verified.
    SourceVerified(Check),
    /// Everything was copied.
    Copied(Counts),
    /// Everything was read again in the target, and is equal to the source.
    Compared(Counts),
    /// The target was verified.
    TargetVerified(Check),
}

/// Why a migration is not complete.
#[derive(Debug, ThisError)]
pub enum MigrationError {
    /// The source is damaged. Nothing was copied.
    #[error("the embedded store is damaged, so nothing was copied: {0}; `sukkal check` lists all errors")]
    Damaged(String),
    /// Queues of the source are in pools, or have messages on their way to some. Nothing was
    /// copied.
    #[error("queues of the embedded store are in pools; a store with pools cannot be migrated, and nothing was copied")]
    Pools,
    /// The target is not equal to the source.
    #[error("the copy is not equal to the embedded store: {0}")]
    Differs(String),
    /// A store has failed.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Verifies the integrity of the source.
pub async fn verify_source(source: &impl MigrationSource) -> Result<Check, MigrationError> {
    if source.has_pools().await? {
        return Err(MigrationError::Pools);
    }
    let check = source.check().await?;
    match check.findings.first() {
        Some(finding) => Err(MigrationError::Damaged(finding.clone())),
        None => Ok(check),
    }
}

/// Copies a source that was verified with this result into the target, compares and verifies the
/// copy, and makes it usable. Calls `report` after each step but the last one.
pub async fn migrate<S: MigrationSource, T: MigrationTarget>(
    source: &S,
    verified: &Check,
    target: &mut T,
    report: impl Fn(&MigrationStep),
) -> Result<(), MigrationError> {
    target.begin().await?;
    report(&MigrationStep::Copied(run_pass(source, target, Pass::Store).await?));
    report(&MigrationStep::Compared(run_pass(source, target, Pass::Compare).await?));
    let copy = target.verify().await?;
    if let Some(finding) = copy.findings.first() {
        return Err(MigrationError::Differs(finding.clone()));
    }
    if (copy.queues, copy.messages) != (verified.queues, verified.messages) {
        return Err(MigrationError::Differs(format!(
            "it has {} queues and {} messages instead of {} and {}",
            copy.queues, copy.messages, verified.queues, verified.messages
        )));
    }
    report(&MigrationStep::TargetVerified(copy));
    Ok(target.complete().await?)
}

#[derive(Clone, Copy)]
enum Pass {
    Store,
    Compare,
}

async fn run_pass<S: MigrationSource, T: MigrationTarget>(
    source: &S,
    target: &mut T,
    pass: Pass,
) -> Result<Counts, MigrationError> {
    let (sender, mut chunks) = mpsc::channel::<Chunk>(CHUNKS_AHEAD);
    // It drops the receiver when it ends, and so stops the export after a failure of the target.
    let receive = async move {
        let mut counts = Counts::default();
        while let Some(chunk) = chunks.recv().await {
            counts.add(&chunk);
            match pass {
                Pass::Store => target.store(chunk).await?,
                Pass::Compare => {
                    if let Some(difference) = target.compare(chunk).await? {
                        return Err(MigrationError::Differs(difference));
                    }
                }
            }
        }
        Ok(counts)
    };
    let (exported, received) = tokio::join!(source.export(sender), receive);
    let counts = received?;
    exported?;
    Ok(counts)
}
