//! Sealed bodies, wherever a store keeps them: the trait, its arguments and its results. They are
//! rewritten when the encryption key has changed.
//!
//! A queue keeps bodies in its messages, in the retries of its deliveries and in its outbox: dead
//! letters and redriven messages on their way to another queue.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;

use super::delivery_record::{RETRY_HEAD_BYTES, message_of_retry_name};
use super::error::Error;
use super::key::id_of;
use super::record;
use sukkal_domain::{Body, QueueId};

/// Lists and replaces sealed bodies.
#[async_trait]
pub trait SealedBodies: Send + Sync {
    /// Returns some of the sealed bodies of the queue after a position, which is `None` at the
    /// beginning. A queue that does not exist has none. Does not apply due changes.
    ///
    /// A walk from the beginning to the end returns each body that is in the same place of the
    /// queue from its beginning to its end.
    async fn list_sealed(&self, queue: &QueueId, after: Option<&SealedPosition>) -> Result<SealedPage, Error>;

    /// Replaces bodies by others of the same length, in one atomic step. Bodies that have been
    /// removed or changed since they were listed are skipped. Returns the number of the others.
    async fn replace_sealed(&self, queue: &QueueId, replacements: &[SealedReplacement]) -> Result<u64, Error>;
}

/// The part of a queue that keeps a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedPart {
    /// The messages.
    Messages,
    /// The messages that are to be delivered to a subscriber again.
    Retries,
    /// The messages that move to another queue.
    Outbox,
}

/// A position in the walk over the bodies of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedPosition {
    pub(super) part: SealedPart,
    /// The last place in the part that was visited; empty at its beginning.
    pub(super) place: Bytes,
}

/// Some of the sealed bodies of a queue.
#[derive(Clone, Debug)]
pub struct SealedPage {
    /// The bodies. There may be none before the end.
    pub bodies: Vec<StoredBody>,
    /// The position from which the walk continues; `None` at the end.
    pub next: Option<SealedPosition>,
}

/// A sealed body in the value that contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBody {
    pub(super) part: SealedPart,
    /// The name of the value in its part; empty in the outbox of a queue in Redis.
    pub(super) name: Bytes,
    pub(super) value: Bytes,
    range: Range<usize>,
}

/// A stored body and the value that replaces the one that contains it.
#[derive(Clone, Debug)]
pub struct SealedReplacement {
    pub(super) stored: StoredBody,
    pub(super) value: Bytes,
}

impl StoredBody {
    /// Returns the body in a value, if it is sealed. The record of the message begins at
    /// `record_at`.
    pub(super) fn find(part: SealedPart, name: Bytes, value: Bytes, record_at: usize) -> Option<Self> {
        let range = record::sealed_body(value.get(record_at..)?)?;
        let range = record_at + range.start..record_at + range.end;
        Some(Self { part, name, value, range })
    }

    /// Returns the body in a message.
    pub(super) fn in_message(key: Bytes, record: Bytes) -> Option<Self> {
        Self::find(SealedPart::Messages, key, record, 0)
    }

    /// Returns the body in a retry.
    pub(super) fn in_retry(name: Bytes, value: Bytes) -> Option<Self> {
        Self::find(SealedPart::Retries, name, value, RETRY_HEAD_BYTES)
    }

    /// Returns the body.
    #[must_use]
    pub fn body(&self) -> Body {
        Body::from_msgpack(self.value.slice(self.range.clone()))
    }

    /// Returns the replacement by another body; `None` if that has another length.
    #[must_use]
    pub fn replaced_by(self, body: &Body) -> Option<SealedReplacement> {
        if body.as_msgpack().len() != self.range.len() {
            return None;
        }
        let mut value = self.value.to_vec();
        value[self.range.clone()].copy_from_slice(body.as_msgpack());
        Some(SealedReplacement { stored: self, value: value.into() })
    }

    /// Says what the body belongs to, such as `message ID`.
    #[must_use]
    pub fn subject(&self, queue: &QueueId) -> String {
        let of_message =
            |key: &[u8]| id_of(queue, key).map_or_else(|_| "a message".to_owned(), |id| format!("message {id}"));
        match self.part {
            SealedPart::Messages => of_message(&self.name),
            SealedPart::Retries => format!("the retry of {}", of_message(message_of_retry_name(&self.name))),
            SealedPart::Outbox => "a message that moves to another queue".to_owned(),
        }
    }
}
