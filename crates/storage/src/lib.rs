//! What a store must do, as traits. `redis` and `embedded` implement them, and the suite in
//! `tests/conformance` runs against both.
//!
//! Each method is one complete, atomic operation; callers never compose steps. Only operations on
//! rarely used records are steps that are composed once, above [`Records`]. `None` and empty lists
//! mean that something does not exist. An [`Error`] means that the store could not do what was
//! asked. A queue that does not exist has no messages. All times are those of the store's own
//! clock.
//!
//! A message that has expired does not exist for any method, even if the store has not reclaimed it
//! yet. A message is *available* if it is not claimed, not delayed and not returned with a delay. A
//! message is *delayed* until the delay with which it was posted has passed.

mod admission;
mod catalogue;
mod claims;
mod deliveries;
mod delivery_record;
pub mod embedded;
mod entry;
mod error;
mod key;
mod maintenance;
mod messages;
pub mod migration;
mod monitoring;
mod moved_messages;
mod outbox;
mod policy;
pub mod pooled;
mod pools;
mod queues;
mod quotas;
mod record;
mod records;
pub mod redis;
mod redrive;
mod sealed_bodies;
mod service_rate;
mod subscription_changes;
mod subscriptions;
mod task_lease;
mod task_record;
mod tasks;
mod token_record;
mod tokens;
mod uri;
pub mod watch;
mod watchers;

pub use admission::{Admission, AdmissionControl, Load, Permit, Weight};
pub use catalogue::{Catalogue, Epoch, LocatedCreation, Location, LocationPage};
pub use claims::{ClaimOutcome, ClaimStore, POP_TERM, PREFERRED_IN_A_ROW_MAX};
use claims::{DEAD_LETTER_STEPS_MAX, LISTED_MESSAGES_MAX};
pub use deliveries::{
    ATTEMPT_DURATION_MAX, DELIVERY_LEASE_DURATION, DeliveryChange, DeliverySignal, DeliveryStore, FeedState, RetryKey,
};
pub use error::{Error, unless_unreadable};
pub use maintenance::{Backup, BackupStart, Check, Maintenance, Schedule};
use messages::REPLY_BYTES_MAX;
pub use messages::{DeleteOutcome, Listing, MessageStore, Page, Popped, Post, PostOutcome};
pub use monitoring::{DiskUsage, Monitoring, PoolState, Processed};
pub use moved_messages::{Arrival, Destinations, MovedBatch, MovedMessageStore, QueueEpoch};
pub use pools::{
    DATABASE_KEY, DatabaseId, FLAVORS_MAX, Moved, POOLS_MAX, PoolConnector, PoolList, PoolStore, PoolsVersion,
    SealedUriError, StoredPool, UriCipher,
};
use queues::complete_summaries;
pub use queues::{NameRange, ProjectPage, QueueListing, QueuePage, QueueStore, UpdateOutcome};
pub use quotas::{MeasuredQueues, QueueUsage, QuotaList, QuotaStore, QuotaVersion};
pub use record::stored_bytes;
pub use records::{Condition, Indexed, Indexes, Read, Records, Row, Table, Write, Written};
pub use redrive::run_redrive;
pub use sealed_bodies::{SealedBodies, SealedPage, SealedPart, SealedPosition, SealedReplacement, StoredBody};
pub use subscriptions::{
    StoredSubscription, StoredSubscriptions, SubscriptionChange, SubscriptionCreation, SubscriptionPage,
    SubscriptionStore, SubscriptionUpdate, SubscriptionWrite, SubscriptionWritten,
};
pub use task_lease::LeaseFence;
pub use tasks::{RedriveStep, TASKS_MAX, TaskCreation, TaskStore};
pub use tokens::{TokenCreation, TokenStore, TokensMax};
pub use uri::{InvalidUri, StoreUri};
pub use watch::{QueueStatus, Watch, WatchStore, Watchers};

/// The tables of records that migrations copy, and whose indexes checks verify. `pools::POOLS` is
/// not among them, because a store with pools is not migrated.
static COPIED_TABLES: [&Table; 2] = [&tokens::TOKENS, &quotas::QUOTAS];

/// Defines [`Driver`], which every type with these traits is.
macro_rules! driver {
    ($($part:path)+) => {
        /// A complete store.
        pub trait Driver: $($part +)+ {}

        impl<T: $($part +)+> Driver for T {}
    };
}

driver! {
    QueueStore MessageStore MovedMessageStore ClaimStore TaskStore SubscriptionStore DeliveryStore SealedBodies Records
    TokenStore WatchStore Maintenance AdmissionControl Monitoring QuotaStore Catalogue PoolStore
}
