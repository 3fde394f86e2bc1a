//! The cases: what every store guarantees. `redis` has the cases that only apply to Redis.

pub(super) mod churn;
pub(super) mod claim_helpers;
pub(super) mod claim_list;
pub(super) mod claimed_deletion;
pub(super) mod claims;
pub(super) mod clock;
pub(super) mod concurrent_posts;
pub(super) mod contention;
pub(super) mod dead_letters;
pub(super) mod delay;
pub(super) mod expiry;
pub(super) mod fair_dead_letters;
pub(super) mod fair_details;
pub(super) mod fair_helpers;
pub(super) mod fair_placement;
pub(super) mod fair_preference;
pub(super) mod fair_shard_changes;
pub(super) mod fair_tenant_expiry;
pub(super) mod fair_turns;
pub(super) mod feed;
pub(super) mod fences;
pub(super) mod idempotency;
pub(super) mod large_messages;
pub(super) mod life_extension;
pub(super) mod maintenance;
pub(super) mod message_ids;
pub(super) mod messages_by_id;
pub(super) mod pauses;
pub(super) mod pops_and_stats;
pub(super) mod posting;
pub(super) mod queue_list;
pub(super) mod queues;
mod redis;
pub(super) mod redrives;
pub(super) mod returning;
pub(super) mod summaries;
pub(super) mod tasks;
pub(super) mod totals;
pub(super) mod turn_model;
pub(super) mod undelivered;
pub(super) mod waiting;

// Random operations against a model are a case of every store too.
pub(super) use super::model;
