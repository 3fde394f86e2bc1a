//! The types of the service and their rules, without I/O, wire formats or storage.

pub mod body;
pub mod claim;
pub mod claim_id;
pub mod client;
pub mod idempotency;
pub mod integer;
pub mod limits;
pub mod message;
pub mod metadata;
pub mod project;
pub mod queue;
pub mod queue_id;
pub mod retry_policy;
pub mod scope;
pub mod secret;
pub mod sharding;
pub mod stats;
pub mod warning;
pub mod web_origins;

pub use body::Body;
pub use claim::{Claim, NewClaim, Term};
pub use claim_id::ClaimId;
pub use client::{ClientId, ClientIdRule};
pub use idempotency::IdempotencyKey;
pub use limits::Limits;
pub use message::{Message, MessageId, NewMessage, Origin, Rank};
pub use metadata::{DeadLetters, Metadata};
pub use project::ProjectId;
pub use queue::{Creation, Queue, Revision};
pub use queue_id::{QueueId, QueueName};
pub use scope::Scope;
pub use secret::Secret;
pub use sharding::{Shard, ShardAssignment, Sharding, Tenant};
pub use stats::{Details, Holding, Stats};
pub use warning::{Warning, WithWarnings};
pub use web_origins::{WebOrigin, WebOrigins};
