//! Looks whether the shards of a queue are what they should be: who has one, and what is counted of each.

use std::collections::BTreeMap;

use super::check::Findings;
use super::failure::damaged;
use super::keys::{self, Part, Table};
use super::located::Located;
use super::shards::UNSHARDED;
use super::state::{Row, State};
use super::tallies::{Block, Counts, Tally};
use super::view::View;
use crate::domain::MessageId;
use crate::storage::Error;
use crate::storage::key::rank_of;

/// What was seen of a queue's shards.
#[derive(Default)]
pub(super) struct SeenShards {
    counts: BTreeMap<u16, Counts>,
    turns: u64,
}

impl SeenShards {
    /// Looks at the shard of one message, and counts it.
    pub(super) fn see<T: Table>(
        &mut self,
        view: &View<T>,
        (row, state): (&Row, &State),
        (id, located): (MessageId, &Located),
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (rank, is_free) = (rank_of(located.key()), located.set == Part::Ready);
        let Some(shard) = located.shard else {
            // What is not due yet may be from before the queue was fair.
            let needs_none = !state.is_fair(&row.policy) || rank <= state.boundary || located.set == Part::Delayed;
            findings.expect(needs_none, format_args!("message {id} has no shard"));
            return Ok(());
        };
        findings
            .expect(rank > state.boundary, format_args!("message {id} is from before there were shards, and has one"));
        findings.expect(shard <= UNSHARDED, format_args!("message {id} has shard {shard}"));
        *self.counts.entry(shard).or_default().of(located.set) += 1;
        self.turns += u64::from(is_free);
        if is_free {
            let turn = view.contents.get(&*keys::of_shard(row.number, Part::Turn, shard, located.key()))?;
            let has_turn = turn.is_some_and(|hold| hold.value() == located.encode_entry());
            findings.expect(has_turn, format_args!("message {id} has no turn, or another hold there"));
        }
        Ok(())
    }

    /// Compares all that was seen with what is counted.
    pub(super) fn compare<T: Table>(
        self,
        view: &View<T>,
        (number, state): (u64, &State),
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let tallies: BTreeMap<u16, Tally> = view.tallies(number)?.into_iter().collect();
        let counted = tallies.iter().map(|(shard, tally)| (*shard, tally.counts)).collect();
        findings.expect(
            self.counts == counted,
            format_args!("of the shards {counted:?} is counted, {:?} is there", self.counts),
        );
        let busy = tallies.iter().filter(|(_, tally)| tally.counts.free > 0).map(|(shard, _)| Block::number_of(*shard));
        let busy = State::busy_with(busy);
        findings.expect(state.busy == busy, format_args!("{:b} are said to be busy, {busy:b} are", state.busy));
        self.compare_turns(view, number, &tallies, findings)
    }

    /// Expects a turn for each message that is free, and what was passed before.
    fn compare_turns<T: Table>(
        self,
        view: &View<T>,
        number: u64,
        tallies: &BTreeMap<u16, Tally>,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (mut turns, mut passed) = (0, BTreeMap::new());
        for entry in view.all_of(number, Part::Turn)? {
            let (turn, _) = entry?;
            let (shard, key) = turn.split_first_chunk().ok_or_else(|| damaged("a turn"))?;
            let (shard, key) = (u16::from_be_bytes(*shard), key.try_into().map_err(|_| damaged("a turn"))?);
            if tallies.get(&shard).is_some_and(|tally| tally.has_passed(&key)) {
                *passed.entry(shard).or_default() += 1;
            } else {
                turns += 1;
            }
        }
        findings.expect(turns == self.turns, format_args!("{} messages have {turns} turns", self.turns));
        let counted = tallies.iter().map(|(shard, tally)| (*shard, tally.passed)).filter(|(_, passed)| *passed > 0);
        let counted: BTreeMap<u16, u32> = counted.collect();
        findings.expect(passed == counted, format_args!("{counted:?} were passed, {passed:?} are there"));
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::domain::{
        Body, ClaimId, ClientIdRule, Metadata, NewClaim, NewMessage, ProjectId, QueueId, Sharding, Tenant, Term,
    };
    use crate::storage::embedded::EmbeddedStore;
    use crate::storage::embedded::writer::Step;
    use crate::storage::embedded::writing::Writing;
    use crate::storage::{ClaimStore, MessageStore, Post, QueueStore, Upkeep};

    /// A fair queue with so many messages in one shard, of which the first is under this claim.
    pub(in crate::storage::embedded) async fn fair_queue(store: &EmbeddedStore, posted: usize) -> (QueueId, ClaimId) {
        let queue = QueueId::new(ProjectId::new("p").unwrap(), "work".parse().unwrap()).unwrap();
        let keys = json!({ "_shards": 2, "_shards_per_tenant": 1 });
        let metadata = Metadata::from_store(keys.as_object().unwrap().clone());
        store.create_queue(&queue, &metadata).await.unwrap();
        let seen = store.get_queue(&queue).await.unwrap().unwrap().revision;
        let lot = Arc::new(Sharding::new(2, 1).unwrap().draw(&Tenant::new("a").unwrap()));
        let body = Body::from_msgpack(Bytes::from_static(b"\x01"));
        let message = NewMessage { ttl_s: 60, delay_s: 0, body, lot: Some(lot) };
        let client = ClientIdRule::Text(1..=9).parse("a client").unwrap();
        let post = Post { seen, client: &client, messages: &vec![message; posted], once: None };
        store.post_messages(&queue, &post).await.unwrap();
        let claim = NewClaim { limit: 1, term: Term { ttl_s: 60, grace_s: 60 }, prefer: Vec::new() };
        let claim = store.create_claim(&queue, &claim).await.unwrap().unwrap().id;
        (queue, claim)
    }

    /// How many entries a part has.
    async fn count(store: &EmbeddedStore, queue: &QueueId, part: Part) -> usize {
        let queue = queue.clone();
        let count = store.write(0, move |store| {
            let number = store.row(&queue)?.expect("it is there").number;
            Ok(Step::Done(store.view.all_of(number, part)?.count()))
        });
        count.await.unwrap()
    }

    #[tokio::test]
    async fn turns_that_were_had_are_forgotten_in_time_and_may_come_back() {
        const POSTED: usize = 300;
        let store = EmbeddedStore::in_memory().unwrap();
        let (queue, first) = fair_queue(&store, POSTED).await;
        let whole = async || assert_eq!(store.check().await.unwrap().findings, [""; 0]);

        let mut claims = Vec::new();
        for taken in (20..=200).step_by(20) {
            let claim = NewClaim { limit: 20, term: Term { ttl_s: 60, grace_s: 60 }, prefer: Vec::new() };
            claims.push(store.create_claim(&queue, &claim).await.unwrap().unwrap().id);
            whole().await;
            let left = count(&store, &queue, Part::Turn).await - (POSTED - 1 - taken);
            assert!(left < 128 + 20, "{left} are left of {taken}");
        }
        let mut popped = 0;
        for released in [&claims[8..], &claims[..2], &claims[2..8], &[first]] {
            for claim in released {
                store.release_claim(&queue, *claim).await.unwrap();
                whole().await;
            }
            let mut last = None;
            while let next = store.pop_messages(&queue, 30).await.unwrap()
                && !next.is_empty()
            {
                whole().await;
                popped += next.len();
                let ids = next.iter().map(|one| Some(one.message.id));
                assert!([last].into_iter().chain(ids).is_sorted());
                last = next.last().map(|one| one.message.id);
            }
        }

        assert_eq!(popped, POSTED);
        assert_eq!([count(&store, &queue, Part::Turn).await, count(&store, &queue, Part::Shard).await], [0, 0]);
    }

    type Damage = fn(&mut Writing<'_>, u64, u16) -> Result<(), Error>;

    #[tokio::test]
    async fn a_check_finds_each_kind_of_damage_to_shards() {
        let damages: [(Damage, &str); 9] = [
            (|_, _, _| Ok(()), ""),
            (
                |store, number, shard| {
                    store.take(&keys::of_shard(number, Part::Shard, Block::number_of(shard), &[])).map(|_| ())
                },
                "is counted",
            ),
            (
                |store, number, shard| store.put(&keys::of_shard(number, Part::Turn, shard, &[255; 12]), &[]),
                "1 messages have 2 turns",
            ),
            (
                |store, number, shard| store.put(&keys::of_shard(number, Part::Turn, shard, &[0; 12]), &[]),
                "1} were passed",
            ),
            (
                |store, number, shard| {
                    let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
                    store.put(&keys::of_shard(number, Part::Turn, shard, located.key()), &[0; 16])
                },
                "another hold",
            ),
            (|store, number, _| store.count(number, |state| state.busy = 2), "said to be busy"),
            (|store, number, _| store.count(number, |state| state.sharded += 1), "is counted"),
            (|store, number, _| store.count(number, |state| state.boundary = state.last), "before there were shards"),
            (
                |store, number, shard| {
                    let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
                    store.leave_shard(number, &located)?;
                    store.put_entry(number, &Located { shard: None, ..located })?;
                    store.take(&keys::of_shard(number, Part::Turn, shard, located.key())).map(|_| ())
                },
                "has no shard",
            ),
        ];
        for (damage, finding) in damages {
            let store = EmbeddedStore::in_memory().unwrap();
            let (queue, _) = fair_queue(&store, 2).await;
            let run = store.write(0, move |store| {
                let number = store.row(&queue)?.expect("it is there").number;
                let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
                damage(store, number, located.shard.expect("it has one")).map(Step::Done)
            });
            run.await.unwrap();

            let findings = store.check().await.unwrap().findings;

            assert_eq!(findings.is_empty(), finding.is_empty(), "{findings:?}");
            assert!(finding.is_empty() || findings.iter().any(|one| one.contains(finding)), "{finding}: {findings:?}");
        }
    }
}
