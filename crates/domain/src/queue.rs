//! A queue: its metadata, and the revision of that.

use super::Metadata;

/// Version of a queue's metadata. No two versions have the same revision, even if the queue is
/// deleted and created again. A revision is at least the time of the store's clock when it was
/// assigned, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Revision(pub u64);

/// A queue as a store returns it, without its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Metadata set by the owner.
    pub metadata: Metadata,
    /// Revision of the metadata.
    pub revision: Revision,
}

/// The outcome of creating a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    /// The queue is new.
    Created,
    /// The queue existed, and its metadata is unchanged.
    Existed,
}
