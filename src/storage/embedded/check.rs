//! Looks whether the store is what it should be: every message in one place and counted once.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::ops::Bound;

use bytes::{Buf, Bytes};

use super::check_shards::SeenShards;
use super::failure::damaged;
use super::keys::{self, EXPIRIES, Key, Part, QUEUES, TRASH, Table};
use super::leases::Lease;
use super::located::{Located, Merged, SETS};
use super::state::{Row, State};
use super::upkeep::kept_until;
use super::view::{View, read_queue};
use crate::domain::{MessageId, QueueId};
use crate::storage::entry::SizeClass;
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
                    match self.check_queue(&queue, &row, &mut findings) {
                        // What stands behind it in this queue is not looked at.
                        Err(Error::Corrupt(reason)) => findings.expect(false, reason),
                        outcome => outcome?,
                    }
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
        let mut seen =
            State { offset: state.offset, logical: state.logical, due: state.due, busy: state.busy, ..state.emptied() };
        let mut shards = SeenShards::default();
        let mut last_rank = 0;
        let mut entries = Merged::new(self.all_located(number)?)?;
        for entry in self.all_of(number, Part::Message)? {
            let (key, record) = entry?;
            let key: Key = key.as_slice().try_into().map_err(|_| damaged("a message's key"))?;
            let id = id_of(queue, &key)?;
            findings.check.messages += 1;
            seen.total += 1;
            findings.expect(rank_of(&key) > last_rank, format_args!("message {id} shares its rank with another"));
            last_rank = rank_of(&key);
            let located = entries.next().transpose()?;
            let located = located.filter(|located| *located.key() == key);
            findings.expect(located.is_some(), format_args!("message {id} or one before it is in no set or in two"));
            if let Some(located) = located {
                seen.sharded += u64::from(located.shard.is_some());
                shards.see(self, (row, &state), (id, &located), findings)?;
                self.check_message(number, id, (&located, &record), &mut seen, findings)?;
            }
        }
        findings.expect(entries.next().is_none(), "a set has a message that is not there");
        findings.expect(state == seen, format_args!("{state:?} is counted, {seen:?} is there"));
        shards.compare(self, (number, &state), findings)?;
        let forgotten = state.delayed > 0 || (state.offset, state.logical) == (0, 0);
        findings.expect(forgotten, "nothing is delayed, and there is a logical time");
        let ends = self.all_of(number, Part::Expiration)?.count() as u64;
        findings.expect(ends == seen.total, format_args!("{} messages have {ends} ends", seen.total));
        let due = self.first_due(number, &state)?.first();
        findings.expect(state.due <= due, "something is due before anybody looks for it");
        self.check_claims(number, findings)
    }

    /// Looks at one message, and counts it.
    fn check_message(
        &self,
        number: u64,
        id: MessageId,
        (located, record): (&Located, &Bytes),
        seen: &mut State,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (key, entry) = (located.key(), &located.entry);
        let mut sets = 0;
        for set in SETS {
            sets += usize::from(self.contents.get(&keys::of_message(number, set, key)[..])?.is_some());
        }
        findings.expect(sets == 1, format_args!("message {id} is in {sets} sets"));
        if let Err(error) = record::message(id, entry, record, 0) {
            findings.expect(false, error);
        }
        let size = SizeClass::of(record.len());
        findings.expect(entry.size == size, format_args!("message {id} has {size:?}, its entry has {:?}", entry.size));
        let is_in_flight = located.set == Part::InFlight;
        seen.in_flight += u64::from(is_in_flight);
        seen.delayed += u64::from(located.set == Part::Delayed);
        findings.expect(
            is_in_flight || (entry.claim, entry.before) == (None, None),
            format_args!("message {id} is under a claim and in no flight"),
        );
        if let Some(claim) = entry.claim {
            let is_its = self.claim(number, claim)?.is_some_and(|row| row.keys.contains(key));
            findings.expect(is_its, format_args!("message {id} is under a claim that does not have it"));
        }
        let is_given = located.set != Part::Ready || rank_of(key) <= seen.last;
        findings.expect(is_given, format_args!("message {id} is free before its rank was given"));
        let end = self.contents.get(&*keys::timed(number, Part::Expiration, entry.ends_s().into(), key))?;
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
        for located in self.entries(number, Part::InFlight, 0)? {
            if let Some(lease) = located?.lease() {
                findings.expect(ends.contains_key(&lease.encode()), "a message is in flight without a lease");
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

#[cfg(test)]
pub(super) mod tests {
    use serde_json::Value;

    use super::*;
    use crate::domain::{Body, ClientId, ClientIdRule, Metadata, NewMessage, ProjectId};
    use crate::storage::embedded::EmbeddedStore;
    use crate::storage::embedded::writer::Step;
    use crate::storage::embedded::writing::Writing;
    use crate::storage::entry::Entry;
    use crate::storage::{MessageStore, Post, QueueStore, Upkeep};

    pub(in crate::storage::embedded) fn poster() -> ClientId {
        ClientIdRule::Text(1..=9).parse("a client").unwrap()
    }

    /// A queue with this metadata.
    pub(in crate::storage::embedded) async fn queue(store: &EmbeddedStore, name: &str, keys: Value) -> QueueId {
        let queue = QueueId::new(ProjectId::new("p").unwrap(), name.parse().unwrap()).unwrap();
        let metadata = Metadata::from_store(keys.as_object().cloned().unwrap_or_default());
        store.create_queue(&queue, &metadata).await.unwrap();
        queue
    }

    /// Posts so many messages with bodies of so many bytes, about.
    pub(in crate::storage::embedded) async fn post(store: &EmbeddedStore, queue: &QueueId, count: usize, bytes: usize) {
        let seen = store.get_queue(queue).await.unwrap().unwrap().revision;
        let body = Body::from_msgpack(rmp_serde::to_vec(&"x".repeat(bytes)).unwrap().into());
        let messages = vec![NewMessage { ttl_s: 300, delay_s: 0, body, lot: None }; count];
        let post = Post { seen, client: &poster(), messages: &messages, once: None };
        store.post_messages(queue, &post).await.unwrap();
    }

    type Damage = fn(Entry) -> (Entry, Part);

    #[tokio::test]
    async fn a_check_finds_each_kind_of_damage_to_entries() {
        let damages: [(Damage, &str); 5] = [
            (|entry| (entry, Part::Ready), ""),
            (|entry| (Entry { end_s: entry.end_s + 1, ..entry }, Part::Ready), "never ends"),
            (|entry| (Entry { size: SizeClass::of(9_999), ..entry }, Part::Ready), "its entry has"),
            (|entry| (Entry { delivery: Some(entry.delivery_state()), ..entry }, Part::InFlight), "without a lease"),
            (|entry| (entry, Part::Delayed), "is counted"),
        ];
        for (damage, finding) in damages {
            let store = EmbeddedStore::in_memory().unwrap();
            let queue = queue(&store, "q", Value::Null).await;
            post(&store, &queue, 1, 9).await;
            let change = store.write(0, move |store: &mut Writing<'_>| {
                let number = store.row(&queue)?.expect("it is there").number;
                let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
                store.take(&keys::of_message(number, Part::Ready, located.key()))?;
                let (entry, set) = damage(located.entry);
                store.put_entry(number, &Located { entry, set, shard: None }).map(Step::Done)
            });
            change.await.unwrap();

            let findings = store.check().await.unwrap().findings;

            assert_eq!(findings.is_empty(), finding.is_empty(), "{findings:?}");
            assert!(finding.is_empty() || findings.iter().any(|one| one.contains(finding)), "{finding}: {findings:?}");
        }
    }
}
