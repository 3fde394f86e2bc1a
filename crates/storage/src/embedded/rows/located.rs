//! Messages in the indexes of a queue. Each message has an entry in one of three sets, ordered by
//! rank. The entry is followed by the message's shard in two bytes, if it has one.

use std::time::Duration;

use bytes::Bytes;
use redb::{AccessGuard, StorageError};

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Slice;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::lease::Lease;
use crate::entry::Entry;
use crate::key::KEY_BYTES;
use sukkal_domain::{Message, Order};

/// The sets in the order in which a message is searched: an id that is deleted or read usually
/// belongs to a claimed message.
pub(crate) const SETS: [Part; 3] = [Part::InFlight, Part::Ready, Part::Delayed];

/// The entry of a message with its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Located {
    pub(crate) entry: Entry,
    pub(crate) set: Part,
    /// The shard in a fair queue. Messages from before the queue became fair have none: see
    /// `fair/shards.rs`.
    pub(crate) shard: Option<u16>,
}

/// A message that is about to be delivered, with its record.
pub(crate) struct Found {
    pub(crate) located: Located,
    pub(crate) record: Bytes,
}

impl Found {
    /// Returns how long `message`, which is this one, was available before its first delivery.
    /// Returns `None` if it was delivered before.
    pub(crate) fn pickup_delay(&self, message: &Message, now_us: u64) -> Option<Duration> {
        self.located.entry.delivery.is_none().then(|| message.pickup_delay(now_us))
    }
}

impl Located {
    pub(crate) fn key(&self) -> &Key {
        &self.entry.key
    }

    /// Encodes the entry, without the key, and the shard.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_entry();
        bytes.extend(self.shard.iter().flat_map(|shard| shard.to_be_bytes()));
        bytes
    }

    /// Encodes the entry, without the key.
    pub(crate) fn encode_entry(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        self.entry.encode_value(self.set == Part::InFlight, &mut bytes);
        bytes
    }

    pub(crate) fn decode(key: &Key, set: Part, bytes: &[u8]) -> Result<Self, Error> {
        // No two lengths of entries differ by the two bytes of a shard.
        let has_shard = !Entry::has_length(KEY_BYTES + bytes.len());
        let (entry, shard) = match bytes.split_last_chunk() {
            Some((entry, shard)) if has_shard => (entry, Some(u16::from_be_bytes(*shard))),
            _ => (bytes, None),
        };
        Ok(Self { entry: Entry::decode_value(key, entry)?, set, shard })
    }

    /// Returns the lease of a message that is in flight.
    pub(crate) fn lease(&self) -> Option<Lease> {
        let lease = self.entry.claim.map_or(Lease::Returned(self.entry.key), Lease::Claim);
        (self.set == Part::InFlight).then_some(lease)
    }
}

/// Iterates over the messages of a set.
pub(crate) struct Entries<'a> {
    set: Part,
    range: redb::Range<'a, Slice, Slice>,
}

type EngineRow<'a> = Result<(AccessGuard<'a, Slice>, AccessGuard<'a, Slice>), StorageError>;

impl<'a> Entries<'a> {
    pub(crate) fn new(set: Part, range: redb::Range<'a, Slice, Slice>) -> Self {
        Self { set, range }
    }

    /// Returns the next message in this order.
    fn next_in(&mut self, order: Order) -> Option<Result<Located, Error>> {
        match order {
            Order::OldestFirst => self.next(),
            Order::NewestFirst => self.next_back(),
        }
    }

    fn read(set: Part, entry: EngineRow<'_>) -> Result<Located, Error> {
        let (key, entry) = entry?;
        let key = keys::rest(key.value()).try_into().map_err(|_| damaged("a message's key"))?;
        Located::decode(&key, set, entry.value())
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Located, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next().map(|entry| Self::read(self.set, entry))
    }
}

impl DoubleEndedIterator for Entries<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(|entry| Self::read(self.set, entry))
    }
}

/// Iterates over several sets together, in the order of ranks or in the opposite order.
pub(crate) struct Merged<'a> {
    sets: Vec<Entries<'a>>,
    heads: Vec<Option<Located>>,
    order: Order,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(mut sets: Vec<Entries<'a>>, order: Order) -> Result<Self, Error> {
        let heads = sets.iter_mut().map(|entries| entries.next_in(order).transpose()).collect::<Result<_, _>>()?;
        Ok(Self { sets, heads, order })
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Located, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.heads.iter().enumerate().filter_map(|(at, head)| head.map(|head| (at, head)));
        let (first, located) = match self.order {
            Order::OldestFirst => heads.min_by_key(|(_, head)| head.entry.key),
            Order::NewestFirst => heads.max_by_key(|(_, head)| head.entry.key),
        }?;
        match self.sets[first].next_in(self.order).transpose() {
            Ok(next) => self.heads[first] = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(located))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::SizeClass;
    use sukkal_domain::ClaimId;
    use sukkal_domain::client::Poster;

    #[test]
    fn an_entry_with_a_shard_is_read_as_it_was_written() {
        let key: Key = *b"a message's.";
        let fresh = Entry::fresh(key, 7, Poster::from_bytes([1; 8]), SizeClass::of(100));
        let delivered = Entry { delivery: Some(fresh.delivery_state()), ..fresh };
        let claimed = Entry { claim: Some(ClaimId::from_bytes([255; 16])), ..delivered };

        for (entry, set) in
            [(fresh, Part::Ready), (delivered, Part::Delayed), (delivered, Part::InFlight), (claimed, Part::InFlight)]
        {
            for shard in [None, Some(0), Some(1_024)] {
                let located = Located { entry, set, shard };
                assert_eq!(Located::decode(&key, set, &located.encode()).unwrap(), located);
            }
        }
    }
}
