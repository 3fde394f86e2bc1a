//! Messages as the queue's indexes have them: each is in one of three sets, in which its entry stands by rank, and
//! behind the entry in two bytes its shard, if it has one.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use redb::{AccessGuard, StorageError};

use super::failure::damaged;
use super::keys::{self, Key, Part, Slice, Table};
use super::leases::Lease;
use super::state::State;
use super::view::View;
use crate::domain::Message;
use crate::storage::Error;
use crate::storage::entry::{Entry, FRESH_BYTES};
use crate::storage::key::{KEY_BYTES, key};

/// In the order in which a message is searched for: what is deleted or shown by its id was claimed, as a rule.
pub(super) const SETS: [Part; 3] = [Part::InFlight, Part::Ready, Part::Delayed];

/// A message with the set that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) entry: Entry,
    pub(super) set: Part,
    /// In a fair queue, unless the message was there before: see `shards.rs`.
    pub(super) shard: Option<u16>,
}

/// A message that is about to be delivered, with its record.
pub(super) struct Found {
    pub(super) located: Located,
    pub(super) record: Bytes,
}

impl Found {
    /// How long the message, which this is, was available, if it was never delivered before.
    pub(super) fn waited(&self, message: &Message, now_us: u64) -> Option<Duration> {
        self.located.entry.delivery.is_none().then(|| message.waited(now_us))
    }
}

impl Located {
    pub(super) fn key(&self) -> &Key {
        &self.entry.key
    }

    /// What follows the key in the message's entry, and the shard.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encode_entry();
        bytes.extend(self.shard.iter().flat_map(|shard| shard.to_be_bytes()));
        bytes
    }

    /// What follows the key in the message's entry.
    pub(super) fn encode_entry(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64);
        self.entry.encode_value(self.set == Part::InFlight, &mut bytes);
        bytes
    }

    fn decode(key: &Key, set: Part, bytes: &[u8]) -> Result<Self, Error> {
        // The lengths of entries differ by multiples of four, so two more bytes are a shard.
        let has_shard = (bytes.len() + KEY_BYTES) % 4 != FRESH_BYTES % 4;
        let (entry, shard) = match bytes.split_last_chunk() {
            Some((entry, shard)) if has_shard => (entry, Some(u16::from_be_bytes(*shard))),
            _ => (bytes, None),
        };
        Ok(Self { entry: Entry::decode_value(key, entry)?, set, shard })
    }

    /// What keeps the message in flight, if it is.
    pub(super) fn lease(&self) -> Option<Lease> {
        let lease = self.entry.claim.map_or(Lease::Returned(self.entry.key), Lease::Claim);
        (self.set == Part::InFlight).then_some(lease)
    }
}

impl<T: Table> View<T> {
    /// The message, if it is there.
    pub(super) fn located(&self, number: u64, state: &State, key: &Key) -> Result<Option<Located>, Error> {
        for set in SETS.into_iter().filter(|set| state.in_set(*set) > 0) {
            if let Some(located) = self.located_in(number, set, key)? {
                return Ok(Some(located));
            }
        }
        Ok(None)
    }

    /// The message in that set, if it is there.
    pub(super) fn located_in(&self, number: u64, set: Part, key: &Key) -> Result<Option<Located>, Error> {
        match self.contents.get(&keys::of_message(number, set, key)[..])? {
            Some(entry) => Located::decode(key, set, entry.value()).map(Some),
            None => Ok(None),
        }
    }

    /// The messages of a set from a rank on, oldest first.
    pub(super) fn entries(&self, number: u64, set: Part, from: u64) -> Result<Entries<'_>, Error> {
        let from = keys::of_message(number, set, &key(from, [0; 5]));
        let to = keys::behind(&keys::part(number, set));
        let range = self.contents.range::<&[u8]>((Bound::Included(&from[..]), Bound::Excluded(&*to)))?;
        Ok(Entries { set, range })
    }

    /// The messages of all three sets.
    pub(super) fn all_located(&self, number: u64) -> Result<Vec<Entries<'_>>, Error> {
        SETS.into_iter().map(|set| self.entries(number, set, 0)).collect()
    }
}

/// The messages of a set.
pub(super) struct Entries<'a> {
    set: Part,
    range: redb::Range<'a, Slice, Slice>,
}

type Row<'a> = Result<(AccessGuard<'a, Slice>, AccessGuard<'a, Slice>), StorageError>;

impl Entries<'_> {
    fn read(set: Part, entry: Row<'_>) -> Result<Located, Error> {
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

/// Several sets of messages as one, in the order of their ranks.
pub(super) struct Merged<'a> {
    sets: Vec<Entries<'a>>,
    heads: Vec<Option<Located>>,
}

impl<'a> Merged<'a> {
    pub(super) fn new(mut sets: Vec<Entries<'a>>) -> Result<Self, Error> {
        let heads = sets.iter_mut().map(|entries| entries.next().transpose()).collect::<Result<_, _>>()?;
        Ok(Self { sets, heads })
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Located, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.heads.iter().enumerate();
        let (first, located) =
            heads.filter_map(|(at, head)| head.map(|head| (at, head))).min_by_key(|(_, head)| head.entry.key)?;
        match self.sets[first].next().transpose() {
            Ok(next) => self.heads[first] = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(located))
    }
}

/// Finds records that are asked for in the order of their keys: the next one without a search, as a rule.
pub(super) struct Records<'a, T: Table> {
    view: &'a View<T>,
    number: u64,
    next: Option<redb::Range<'a, Slice, Slice>>,
}

impl<'a, T: Table> Records<'a, T> {
    pub(super) fn new(view: &'a View<T>, number: u64) -> Self {
        Self { view, number, next: None }
    }

    /// The record of a message, which must be there.
    pub(super) fn of(&mut self, key: &Key) -> Result<AccessGuard<'a, Slice>, Error> {
        let wanted = keys::of_message(self.number, Part::Message, key);
        if let Some(record) = self.take_if(&wanted)? {
            return Ok(record);
        }
        self.next = Some(self.view.contents.range::<&[u8]>(&wanted[..]..)?);
        self.take_if(&wanted)?.ok_or_else(|| damaged("a message"))
    }

    /// The next record, if it is the wanted one.
    fn take_if(&mut self, wanted: &[u8]) -> Result<Option<AccessGuard<'a, Slice>>, Error> {
        let Some((key, record)) = self.next.as_mut().and_then(Iterator::next).transpose()? else {
            return Ok(None);
        };
        Ok((key.value() == wanted).then_some(record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ClaimId;
    use crate::domain::client::Poster;
    use crate::storage::entry::SizeClass;

    #[test]
    fn a_message_is_located_as_it_was_stored() {
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
