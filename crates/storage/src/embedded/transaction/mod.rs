//! Transactions: reading, writing, and the thread that runs the write transactions.

pub(super) mod budget;
pub(super) mod read;
pub(super) mod read_ahead;
pub(super) mod write;
pub(super) mod writer;
