//! The embedded store: one file that belongs to this process, or the same in memory.
//!
//! An operation that changes the store runs on the writer thread (`transaction/writer.rs`). An
//! operation that only reads has a transaction of its own, which blocks nobody
//! (`transaction/read.rs`). Before any operation on a queue, its due changes are applied; a reader
//! that finds some sends them to the writer thread first. `rows/keys.rs` documents what is stored.
//!
//! From the bottom up: `engine` is the file, `rows` the formats, `transaction` the access to them,
//! `fair` the turns of fair queues. The operations have the names of the store's traits.

mod backup;
mod catalogue;
mod check;
mod claims;
mod dead_letters;
mod deliveries;
mod due_changes;
mod engine;
mod export;
mod fair;
mod holders;
mod maintenance;
mod messages;
mod moved_messages;
mod outbox;
mod queues;
mod quotas;
mod records;
mod rows;
mod sealed_bodies;
mod store;
mod tasks;
#[cfg(test)]
mod tests;
mod transaction;
mod watch;

pub use backup::RestoreError;
pub use engine::error::OpenError;
pub use store::EmbeddedStore;
pub use transaction::writer::Fsync;
