//! Looks whether the store is what it should be: every message in one place and counted once.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::Bound;

use bytes::{Buf, Bytes};

use super::check_shards::SeenShards;
use super::failure::damaged;
use super::holds::{Hold, Lease};
use super::keys::{self, EXPIRIES, Key, Part, QUEUES, TRASH, Table};
use super::places::{Merged, SETS};
use super::state::{Row, State};
use super::upkeep::kept_until;
use super::view::{View, read_queue};
use crate::domain::{MessageId, QueueId};
use crate::storage::key::{id_of, rank_of};
use crate::storage::{Check, Error, record};

pub(super) struct Findings<'a> {
    check: &'a mut Check,
    what: String,
}

impl Findings<'_> {
    pub(super) fn expect(&mut self, is_so: bool, finding: impl Display) {
        if !is_so {
            self.check.find(&self.what, finding);
        }
    }
}

impl<T: Table> View<T> {
    /// Looks at all of the store; takes as long as reading it does.
    pub(super) fn check(&self) -> Result<Check, Error> {
        let mut check = Check::default();
        let mut numbers = HashMap::new();
        let mut projects: HashMap<Vec<u8>, u64> = HashMap::new();
        for (key, row) in self.all_with(&[QUEUES])? {
            let queue = keys::queue_of(&key).ok_or_else(|| damaged("a queue's name"))?;
            let mut findings = Findings { check: &mut check, what: queue.to_string() };
            findings.check.queues += 1;
            match (Row::decode(&row), read_queue(&row)) {
                (Ok((row, _)), Ok(_)) => {
                    let other = numbers.insert(row.number, queue.clone());
                    findings.expect(other.is_none(), "it shares its contents with another queue");
                    self.check_queue(&queue, &row, &mut findings)?;
                }
                (Err(error), _) | (_, Err(error)) => findings.expect(false, error),
            }
            *projects.entry(keys::project(queue.project())).or_default() += 1;
        }
        let mut findings = Findings { check: &mut check, what: "the registry".to_owned() };
        let counted: HashMap<Vec<u8>, u64> = self
            .all_with(&keys::project_counts())?
            .into_iter()
            .map(|(key, count)| (key, (&*count).try_get_u64().unwrap_or(0)))
            .collect();
        findings.expect(counted == projects, "the numbers of queues are not those of the queues");
        let trash: HashSet<u64> = self.all_with(&[TRASH])?.iter().filter_map(|(key, _)| keys::trashed(key)).collect();
        for number in self.numbers()? {
            let is_known = numbers.contains_key(&number) != trash.contains(&number);
            findings.expect(is_known, format_args!("contents {number} belong to no queue, or to one and to none"));
        }
        for (expiry, _) in self.all_with(&[EXPIRIES])? {
            let kept = self.registry.get(keys::expiring(&expiry))?;
            let until = kept.and_then(|kept| kept_until(kept.value()));
            findings
                .expect(keys::expiry(until.unwrap_or(0), keys::expiring(&expiry)) == expiry, "something ends twice");
        }
        Ok(check)
    }

    fn check_queue(&self, queue: &QueueId, row: &Row, findings: &mut Findings<'_>) -> Result<(), Error> {
        let number = row.number;
        let state = self.stored_state(number)?;
        let mut seen = State { waiting: state.waiting, due: state.due, busy: state.busy, ..state.emptied() };
        let mut shards = SeenShards::default();
        let mut last_rank = 0;
        let mut placed = Merged::new(self.all_places(number)?)?;
        for entry in self.all_of(number, Part::Message)? {
            let (key, record) = entry?;
            let key: Key = key.as_slice().try_into().map_err(|_| damaged("a message's key"))?;
            let id = id_of(queue, &key)?;
            findings.check.messages += 1;
            seen.total += 1;
            findings.expect(rank_of(&key) > last_rank, format_args!("message {id} shares its rank with another"));
            last_rank = rank_of(&key);
            let place = placed.next().transpose()?;
            let is_there = place.is_some_and(|place| place.key == key);
            if let Some(place) = place.filter(|_| is_there) {
                seen.sharded += u64::from(place.shard.is_some());
                shards.see(self, (row, &state), (id, &place), findings)?;
            }
            findings.expect(is_there, format_args!("message {id} or one before it is in no set or in two"));
            match record::message(id, &record, None, 0).and_then(|_| Hold::of_record(&record)) {
                Ok(fresh) => self.check_message(number, (id, &key), fresh, &mut seen, findings)?,
                Err(error) => findings.expect(false, error),
            }
        }
        findings.expect(placed.next().is_none(), "a set has a message that is not there");
        findings.expect(state == seen, format_args!("{state:?} is counted, {seen:?} is there"));
        shards.compare(self, (number, &state), findings)?;
        let ends = self.all_of(number, Part::End)?.count() as u64;
        findings.expect(ends == seen.total, format_args!("{} messages have {ends} ends", seen.total));
        let due = self.first_due(number, &state)?.first();
        findings.expect(state.due <= due, "something is due before anybody looks for it");
        self.check_claims(number, findings)
    }

    /// Looks at one message, which is that before its first claim, and counts it.
    fn check_message(
        &self,
        number: u64,
        (id, key): (MessageId, &Key),
        fresh: Hold,
        seen: &mut State,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let mut places = Vec::new();
        for set in SETS {
            places.extend(self.place_in(number, set, key)?);
        }
        let [place] = places[..] else {
            findings.expect(false, format_args!("message {id} is in no set or in two"));
            return Ok(());
        };
        let (is_held, is_ready) = (place.set == Part::Held, place.set == Part::Ready);
        seen.held += u64::from(is_held);
        seen.delayed += u64::from(place.set == Part::Delayed);
        let hold = place.hold.unwrap_or(fresh);
        findings
            .expect(is_held == hold.lease.is_some(), format_args!("message {id} is held by nothing, or held and free"));
        if let Some(claim) = hold.holder() {
            let is_its = self.claim(number, claim)?.is_some_and(|row| row.keys.contains(key));
            findings.expect(is_its, format_args!("message {id} is under a claim that does not have it"));
        }
        findings.expect(
            !is_ready || rank_of(key) <= seen.last,
            format_args!("message {id} is free before its rank was given"),
        );
        let end = self.contents.get(&*keys::timed(number, Part::End, hold.end_s, key))?;
        findings.expect(end.is_some(), format_args!("message {id} never ends"));
        Ok(())
    }

    fn check_claims(&self, number: u64, findings: &mut Findings<'_>) -> Result<(), Error> {
        let mut ends = HashMap::new();
        for (end_us, lease) in self.until(number, Part::Lease, u64::MAX - 1, usize::MAX)? {
            let other = ends.insert(lease.clone(), end_us);
            findings.expect(other.is_none(), "a lease ends twice");
            if let Lease::Claim(id) = Lease::decode(&lease)? {
                let row = self.claim(number, id)?;
                findings.expect(row.is_some_and(|row| row.end_us == end_us), format_args!("claim {id} is not there"));
            }
        }
        for entry in self.all_of(number, Part::Claim)? {
            findings.expect(ends.contains_key(&entry?.0), "a claim never ends");
        }
        for place in self.places(number, Part::Held, 0)? {
            if let Some(lease) = place?.hold.and_then(|hold| hold.lease) {
                findings.expect(ends.contains_key(&lease.encode()), "a message is held by a lease that is not there");
            }
        }
        Ok(())
    }

    /// The numbers that anything is kept under.
    fn numbers(&self) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        let mut from = vec![0];
        while let Some(entry) = self.contents.range::<&[u8]>(&*from..)?.next() {
            let entry = entry?;
            let number = entry.0.value().first_chunk().map(|number| u64::from_be_bytes(*number));
            let number = number.ok_or_else(|| damaged("a key"))?;
            numbers.push(number);
            from = (number + 1).to_be_bytes().to_vec();
        }
        Ok(numbers)
    }

    /// All of the registry that begins so.
    fn all_with(&self, prefix: &[u8]) -> Result<Vec<(Vec<u8>, Bytes)>, Error> {
        let to = keys::behind(prefix);
        let range = self.registry.range::<&[u8]>((Bound::Included(prefix), Bound::Excluded(&*to)))?;
        let read = range.map(|entry| {
            let (key, value) = entry?;
            Ok((key.value().to_vec(), Bytes::copy_from_slice(value.value())))
        });
        read.collect()
    }

    /// All of a part, without number and part in the keys.
    pub(super) fn all_of(
        &self,
        number: u64,
        part: Part,
    ) -> Result<impl Iterator<Item = Result<(Vec<u8>, Bytes), Error>> + '_, Error> {
        let (from, to) = (keys::part(number, part), keys::behind(&keys::part(number, part)));
        let range = self.contents.range::<&[u8]>(&*from..&*to)?;
        Ok(range.map(|entry| {
            let (key, value) = entry?;
            Ok((keys::rest(key.value()).to_vec(), Bytes::copy_from_slice(value.value())))
        }))
    }
}
