//! The nouns of the service and their rules. No I/O, no wire format, no store.

pub mod body;
pub mod claim;
pub mod client;
pub mod fairness;
pub mod integer;
pub mod limits;
pub mod message;
pub mod metadata;
pub mod once;
pub mod patch;
pub mod project;
pub mod queue;
pub mod retry_policy;
pub mod secret;
pub mod warning;

pub use body::Body;
pub use claim::{Claim, ClaimId, NewClaim, Term};
pub use client::{ClientId, ClientIdRule};
pub use fairness::{Lot, Shard, Sharding, Tenant};
pub use limits::Limits;
pub use message::{Message, MessageId, NewMessage, Origin, Rank};
pub use metadata::{DeadLetters, Metadata};
pub use once::Once;
pub use patch::MetadataPatch;
pub use project::ProjectId;
pub use queue::{Queue, QueueId, QueueName, Revision};
pub use secret::Secret;
pub use warning::{Warned, Warning};
