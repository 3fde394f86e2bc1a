//! The keys and rows of the tables, with their encodings.

pub(super) mod claim;
pub(super) mod delivery;
pub(super) mod keys;
pub(super) mod lease;
pub(super) mod located;
pub(super) mod queue;
pub(super) mod shard_counts;
pub(super) mod state;
pub(super) mod tenants;
