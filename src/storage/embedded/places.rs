//! Where messages are: each in one of three sets, in which they stand by rank, with what claims have changed about them
//! and behind that, in two bytes, the shard, if they have one.

use std::ops::Bound;
use std::time::Duration;

use bytes::Bytes;
use redb::{AccessGuard, StorageError};

use super::failure::damaged;
use super::holds::Hold;
use super::keys::{self, Key, Part, Slice, Table};
use super::state::State;
use super::view::View;
use crate::domain::{ClaimId, Message};
use crate::storage::Error;
use crate::storage::key::key;

/// In the order in which a message is looked for: what is deleted or shown by its id was claimed, as a rule.
pub(super) const SETS: [Part; 3] = [Part::Held, Part::Ready, Part::Delayed];

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) key: Key,
    pub(super) set: Part,
    /// None before its first claim.
    pub(super) hold: Option<Hold>,
    /// In a fair queue, unless it was there before: see `shards.rs`.
    pub(super) shard: Option<u16>,
}

/// A message that is to be given out, with its record.
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) record: Bytes,
}

impl Found {
    /// The message's hold, or what it is before the first claim.
    pub(super) fn hold(&self) -> Result<Hold, Error> {
        self.place.hold.map_or_else(|| Hold::of_record(&self.record), Ok)
    }

    /// How long the message, which this is, was there to be given out, if nobody was given it before.
    pub(super) fn waited(&self, message: &Message, now_us: u64) -> Option<Duration> {
        self.place.hold.is_none().then(|| message.waited(now_us))
    }
}

impl Place {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.encoded_hold();
        bytes.extend(self.shard.iter().flat_map(|shard| shard.to_be_bytes()));
        bytes
    }

    fn decode(key: &Key, set: Part, bytes: &[u8]) -> Result<Self, Error> {
        // No hold is two bytes longer than another.
        let (hold, shard) = match bytes.split_last_chunk() {
            Some((hold, shard)) if Hold::can_have(hold.len()) => (hold, Some(u16::from_be_bytes(*shard))),
            _ => (bytes, None),
        };
        Ok(Self { key: *key, set, hold: Hold::stored(hold)?, shard })
    }

    /// What is stored of its hold.
    pub(super) fn encoded_hold(&self) -> Vec<u8> {
        self.hold.as_ref().map_or_else(Vec::new, Hold::encode)
    }

    /// The claim that the message is under.
    pub(super) fn holder(&self) -> Option<ClaimId> {
        self.hold.and_then(|hold| hold.holder())
    }
}

impl<T: Table> View<T> {
    /// Where a message is, if it is there.
    pub(super) fn place(&self, number: u64, state: &State, key: &Key) -> Result<Option<Place>, Error> {
        for set in SETS.into_iter().filter(|set| state.in_set(*set) > 0) {
            if let Some(place) = self.place_in(number, set, key)? {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// The place of a message in that set, if it is there.
    pub(super) fn place_in(&self, number: u64, set: Part, key: &Key) -> Result<Option<Place>, Error> {
        match self.contents.get(&keys::of_message(number, set, key)[..])? {
            Some(place) => Place::decode(key, set, place.value()).map(Some),
            None => Ok(None),
        }
    }

    /// The messages of a set from a rank on, oldest first.
    pub(super) fn places(&self, number: u64, set: Part, from: u64) -> Result<Places<'_>, Error> {
        let from = keys::of_message(number, set, &key(from, [0; 5]));
        let to = keys::behind(&keys::part(number, set));
        let range = self.contents.range::<&[u8]>((Bound::Included(&from[..]), Bound::Excluded(&*to)))?;
        Ok(Places { set, range })
    }

    /// The messages of all three sets.
    pub(super) fn all_places(&self, number: u64) -> Result<Vec<Places<'_>>, Error> {
        SETS.into_iter().map(|set| self.places(number, set, 0)).collect()
    }
}

/// The messages of a set.
pub(super) struct Places<'a> {
    set: Part,
    range: redb::Range<'a, Slice, Slice>,
}

type Entry<'a> = Result<(AccessGuard<'a, Slice>, AccessGuard<'a, Slice>), StorageError>;

impl Places<'_> {
    fn read(set: Part, entry: Entry<'_>) -> Result<Place, Error> {
        let (key, place) = entry?;
        let key = keys::rest(key.value()).try_into().map_err(|_| damaged("a message's key"))?;
        Place::decode(&key, set, place.value())
    }
}

impl Iterator for Places<'_> {
    type Item = Result<Place, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.range.next().map(|entry| Self::read(self.set, entry))
    }
}

impl DoubleEndedIterator for Places<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.range.next_back().map(|entry| Self::read(self.set, entry))
    }
}

/// Several sets of messages as one, in the order of their ranks.
pub(super) struct Merged<'a> {
    sets: Vec<Places<'a>>,
    heads: Vec<Option<Place>>,
}

impl<'a> Merged<'a> {
    pub(super) fn new(mut sets: Vec<Places<'a>>) -> Result<Self, Error> {
        let heads = sets.iter_mut().map(|places| places.next().transpose()).collect::<Result<_, _>>()?;
        Ok(Self { sets, heads })
    }
}

impl Iterator for Merged<'_> {
    type Item = Result<Place, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let heads = self.heads.iter().enumerate();
        let (first, place) =
            heads.filter_map(|(at, head)| head.map(|head| (at, head))).min_by_key(|(_, head)| head.key)?;
        match self.sets[first].next().transpose() {
            Ok(next) => self.heads[first] = next,
            Err(error) => return Some(Err(error)),
        }
        Some(Ok(place))
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
    use crate::storage::embedded::holds::Lease;

    #[test]
    fn a_place_is_read_as_it_was_written() {
        let key: Key = *b"a message's.";
        let claim = ClaimId::from_bytes([255; 16]);
        let leases = [None, Some(Lease::Claim(claim)), Some(Lease::Nobody(key))];
        let claimed = leases.map(|lease| Some(Hold { count: 1, ttl_s: 60, end_s: u64::MAX, lease }));

        for hold in [None].into_iter().chain(claimed) {
            for shard in [None, Some(0), Some(1_024)] {
                let place = Place { key, set: Part::Held, hold, shard };
                assert_eq!(Place::decode(&key, Part::Held, &place.encode()).unwrap(), place);
            }
        }
    }
}
