//! Messages that move to another queue, which may be in another store: dead letters, and messages
//! that a redrive moves. They leave through the outbox of their queue: see `outbox.rs`.

use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use bytes::{BufMut, Bytes};

use super::entry::{DELIVERY_BYTES, Delivery, Entry, FRESH_BYTES, SizeClass};
use super::error::Error;
use super::key::id_of;
use super::{QueueStore, record};
use sukkal_domain::client::Poster;
use sukkal_domain::{Metadata, Origin, QueueId, QueueName};

/// Separates the name of the receiving queue from its epoch in an outbox. No name of a queue has
/// it.
const BEFORE_EPOCH: char = '~';

const NUMBER_BYTES: usize = 8;
const DELIVERY_AT: usize = NUMBER_BYTES;
const ENTRY_AT: usize = DELIVERY_AT + DELIVERY_BYTES;
const TARGET_AT: usize = ENTRY_AT + FRESH_BYTES;

/// The epoch of a queue in its store: changes when the queue is created or purged. Two queues of
/// the same name never have the same epoch, even if they were in different stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueEpoch(pub(super) u64);

/// Receives messages that other queues have moved.
#[async_trait]
pub trait MovedMessageStore: Send + Sync {
    /// Returns the epoch of a queue, if it exists.
    async fn queue_epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error>;

    /// Posts the messages of a batch to their new queue, in order. Skips those that have arrived in
    /// this store before, even if the queue was deleted afterwards.
    ///
    /// Messages of a redrive arrive only in the queue with the epoch of the batch. If that queue
    /// was deleted or purged, they can return to their source: an epoch never comes back, so a
    /// delayed delivery cannot bring them to a later queue of the same name.
    ///
    /// Dead letters arrive in any queue of that name. If the queue is deleted after they have
    /// arrived, and is created in another store before they have left the outbox, they arrive in
    /// the new queue too. No message exists twice, because the first copies were deleted with their
    /// queue. But a client may have received them there.
    async fn receive_moved(&self, batch: &MovedBatch) -> Result<Arrival, Error>;
}

/// The queues to which messages of a store can move. A store uses itself, unless it is one of
/// several: then these are the queues of all stores.
#[async_trait]
pub trait Destinations: Send + Sync {
    /// Returns the epoch of the queue, if it exists.
    async fn epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error>;

    /// Creates the queue without metadata, unless it exists.
    async fn create(&self, queue: &QueueId) -> Result<(), Error>;

    /// Delivers a batch to its new queue: see [`MovedMessageStore::receive_moved`].
    async fn deliver(&self, batch: &MovedBatch) -> Result<Arrival, Error>;

    /// Ends the moves of this queue to other pools whose processes have died, and removes what
    /// moves have left. A single store has none.
    async fn resolve_moves(&self, _queue: &QueueId) -> Result<(), Error> {
        Ok(())
    }

    /// Takes this queue out of the catalogue if it is in a pool that does not have it, now and when
    /// this was called before. A single store has no pools.
    async fn resolve_location(&self, _queue: &QueueId) -> Result<(), Error> {
        Ok(())
    }
}

#[async_trait]
impl<T: QueueStore + MovedMessageStore> Destinations for T {
    async fn epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        self.queue_epoch(queue).await
    }

    async fn create(&self, queue: &QueueId) -> Result<(), Error> {
        self.create_queue(queue, &Metadata::default()).await.map(drop)
    }

    async fn deliver(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        self.receive_moved(batch).await
    }
}

/// The result of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All messages have arrived, now or before.
    Posted,
    /// No message has arrived, because the queue does not exist, or has another epoch than the one
    /// to which a redrive moves them.
    NoQueue,
}

/// Messages of one queue that move to the same queue, in the order of their numbers. There is at
/// least one.
#[derive(Clone, Debug)]
pub struct MovedBatch {
    /// The queue that they leave.
    pub source: QueueId,
    /// Their new queue.
    pub target: QueueId,
    /// The epoch of the queue to which a redrive moves them; `None` for dead letters.
    pub epoch: Option<QueueEpoch>,
    pub(super) messages: Vec<MovedMessage>,
}

/// A message that has left its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MovedMessage {
    /// Number among all messages that have left the queue. Later ones have higher numbers.
    pub(super) number: u64,
    /// Its delivery state, with the expiration time in the new queue. The time to live is 0 if it
    /// is that of the record.
    pub(super) delivery: Delivery,
    /// Its entry in the queue that it has left.
    pub(super) entry: Entry,
    /// Its record in the queue that it has left.
    pub(super) record: Bytes,
}

/// A message in the form in which its new queue stores it.
pub(super) struct ArrivingMessage {
    pub(super) record: Bytes,
    pub(super) end_s: u32,
    pub(super) poster: Poster,
    pub(super) size: SizeClass,
    /// The delivery state that a dead letter keeps.
    pub(super) delivery: Option<Delivery>,
}

/// A message in an outbox. It is stored as its number, its delivery state, its entry, the length of
/// its encoded target, that target, and its record. `scripts/shared/dead_letters.lua` has the same
/// format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutgoingMessage {
    pub(super) message: MovedMessage,
    pub(super) target: Target,
}

/// The queue to which a message in an outbox goes. It is encoded as its name. For a message that a
/// redrive moves, `~` and the epoch of the queue follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) name: QueueName,
    pub(super) epoch: Option<QueueEpoch>,
}

impl MovedBatch {
    /// Returns the lowest and the highest number.
    pub(super) fn numbers(&self) -> (u64, u64) {
        let number = |message: Option<&MovedMessage>| message.map_or(0, |message| message.number);
        (number(self.messages.first()), number(self.messages.last()))
    }

    /// Returns messages of an outbox that go to the same queue as a batch.
    pub(super) fn of_outgoing(source: &QueueId, outgoing: &[OutgoingMessage]) -> Result<Self, Error> {
        let first = outgoing.first().ok_or_else(|| Error::Corrupt(format!("a batch of {source} is empty")))?;
        Ok(Self {
            source: source.clone(),
            target: queue_named(source, &first.target.name)?,
            epoch: first.target.epoch,
            messages: outgoing.iter().map(|outgoing| outgoing.message.clone()).collect(),
        })
    }
}

impl MovedMessage {
    /// Returns the message as it arrives. A dead letter gets an origin and keeps its delivery
    /// state. A redriven message starts anew.
    pub(super) fn arriving(&self, source: &QueueId, is_redriven: bool) -> Result<ArrivingMessage, Error> {
        let Self { delivery, entry, record, .. } = self;
        let id = id_of(source, &entry.key)?;
        let record = if is_redriven {
            record::redriven(id, record, u64::from(delivery.end_s.saturating_sub(delivery.ttl_s + 1)))?
        } else {
            let origin = Origin { queue: source.name().clone(), id, claim_count: delivery.count };
            let ttl_s = if delivery.ttl_s > 0 { delivery.ttl_s } else { record::ttl_s(id, record)? };
            record::dead_letter(record, entry, &origin, ttl_s)?
        };
        let kept = Delivery { is_undelivered: true, ttl_s: 0, ..*delivery };
        Ok(ArrivingMessage {
            size: SizeClass::of(record.len()),
            record,
            end_s: delivery.end_s,
            poster: entry.poster,
            delivery: (!is_redriven).then_some(kept),
        })
    }
}

impl OutgoingMessage {
    /// Returns whether both go to the same queue in the same way.
    pub(super) fn goes_with(&self, other: &Self) -> bool {
        self.target == other.target
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let Self { message, target } = self;
        let target = target.encode();
        let length = u8::try_from(target.len()).expect("a queue's name is short");
        let mut bytes = Vec::with_capacity(TARGET_AT + 1 + target.len() + message.record.len());
        bytes.put_u64(message.number);
        bytes.put_slice(&message.delivery.encode());
        bytes.extend(Entry { delivery: None, first_claim_ms: None, ..message.entry }.encode(false));
        bytes.put_u8(length);
        bytes.put_slice(target.as_bytes());
        bytes.put_slice(&message.record);
        bytes
    }

    /// Returns the number of a stored message that can be delivered and read.
    pub(super) fn check(source: &QueueId, bytes: &Bytes) -> Result<u64, Error> {
        let Self { message, target } = Self::decode(bytes)?;
        message.arriving(source, target.epoch.is_some())?;
        record::check(id_of(source, &message.entry.key)?, &message.record)?;
        Ok(message.number)
    }

    pub(super) fn decode(bytes: &Bytes) -> Result<Self, Error> {
        let record = record_at(bytes)?;
        let target = bytes.get(TARGET_AT + 1..record).and_then(Target::decode).ok_or_else(too_short)?;
        let message = MovedMessage {
            number: u64::from_be_bytes(bytes[..NUMBER_BYTES].try_into().expect("eight bytes")),
            delivery: Delivery::decode(&bytes[DELIVERY_AT..ENTRY_AT]),
            entry: Entry::decode(&bytes[ENTRY_AT..TARGET_AT])?,
            record: bytes.slice(record..),
        };
        Ok(Self { message, target })
    }
}

impl Target {
    pub(super) fn encode(&self) -> String {
        match self.epoch {
            Some(QueueEpoch(epoch)) => format!("{}{BEFORE_EPOCH}{epoch}", self.name),
            None => self.name.to_string(),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let text = str::from_utf8(bytes).ok()?;
        let (name, epoch) = match text.split_once(BEFORE_EPOCH) {
            Some((name, epoch)) => (name, Some(QueueEpoch(epoch.parse().ok()?))),
            None => (text, None),
        };
        Some(Self { name: name.parse().ok()?, epoch })
    }
}

/// Returns where the record of the message begins in a value of the outbox.
pub(super) fn record_at(outgoing: &[u8]) -> Result<usize, Error> {
    let name_bytes = outgoing.get(TARGET_AT).ok_or_else(too_short)?;
    Ok(TARGET_AT + 1 + usize::from(*name_bytes))
}

/// Returns the queue with this name in the project of `source`.
pub(super) fn queue_named(source: &QueueId, name: &QueueName) -> Result<QueueId, Error> {
    QueueId::new(source.project().clone(), name.clone())
        .map_err(|error| Error::Corrupt(format!("a message that leaves {source}: {error}")))
}

fn too_short() -> Error {
    Error::Corrupt("a message in an outbox is too short".to_owned())
}

/// The destinations that a store was given, if it is one of several stores. Clones share them.
#[derive(Clone, Default)]
pub(super) struct OtherStores(Arc<OnceLock<Weak<dyn Destinations>>>);

impl OtherStores {
    /// Sets the destinations. Later calls have no effect.
    pub(super) fn set(&self, destinations: Weak<dyn Destinations>) {
        let _ = self.0.set(destinations);
    }

    /// Returns whether there are other stores.
    pub(super) fn exist(&self) -> bool {
        self.0.get().is_some()
    }

    /// Returns the destinations, which are the store itself if it is the only one. Fails while the
    /// stores are being closed.
    pub(super) fn destinations(
        &self,
        own: &(impl Destinations + Clone + 'static),
    ) -> Result<Arc<dyn Destinations>, Error> {
        match self.0.get() {
            None => Ok(Arc::new(own.clone())),
            Some(others) => others.upgrade().ok_or_else(|| Error::Unavailable("the stores are closed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outgoing_message_is_read_as_it_was_written() {
        let entry = Entry::fresh(*b"a message's.", 7, Poster::from_bytes(*b"a client"), SizeClass::of(100));
        let delivery = Delivery { count: 3, is_undelivered: true, ttl_s: 60, end_s: 9 };
        let message = MovedMessage { number: 1 << 40, delivery, entry, record: Bytes::from_static(b"a record") };
        for epoch in [None, Some(QueueEpoch(u64::MAX))] {
            let target = Target { name: "q".repeat(64).parse().unwrap(), epoch };
            let outgoing = OutgoingMessage { message: message.clone(), target };
            let encoded = Bytes::from(outgoing.encode());

            assert_eq!(OutgoingMessage::decode(&encoded).unwrap(), outgoing);
            assert_eq!(&encoded[record_at(&encoded).unwrap()..], b"a record");
            assert!(OutgoingMessage::decode(&encoded.slice(..=TARGET_AT)).is_err());
        }
    }
}
