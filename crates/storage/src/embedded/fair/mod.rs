//! Fair queues: shards, their counts, and the order of turns.

mod shard_counts;
pub(super) mod shards;
mod tenants;
mod turns;
