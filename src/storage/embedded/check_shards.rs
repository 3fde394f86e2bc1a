//! Looks whether the shards of a queue are what they should be: who has one, and what is counted of each.

use std::collections::BTreeMap;

use super::check::Findings;
use super::keys::{self, Part, Table};
use super::places::Place;
use super::shards::{Counts, UNSHARDED};
use super::state::{Row, State};
use super::view::View;
use crate::domain::MessageId;
use crate::storage::Error;
use crate::storage::key::rank_of;

/// What was seen of a queue's shards.
#[derive(Default)]
pub(super) struct SeenShards {
    counts: BTreeMap<u16, Counts>,
    turns: usize,
}

impl SeenShards {
    /// Looks at the shard of one message, and counts it.
    pub(super) fn see<T: Table>(
        &mut self,
        view: &View<T>,
        (row, state): (&Row, &State),
        (id, place): (MessageId, &Place),
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (rank, is_free) = (rank_of(&place.key), place.set == Part::Ready);
        let Some(shard) = place.shard else {
            // What is not due yet may be from before the queue was fair.
            let needs_none = !state.is_fair(&row.policy) || rank <= state.boundary || place.set == Part::Delayed;
            findings.expect(needs_none, format_args!("message {id} has no shard"));
            return Ok(());
        };
        findings
            .expect(rank > state.boundary, format_args!("message {id} is from before there were shards, and has one"));
        findings.expect(shard <= UNSHARDED, format_args!("message {id} has shard {shard}"));
        *self.counts.entry(shard).or_default().of(place.set) += 1;
        self.turns += usize::from(is_free);
        let turn = view.contents.get(&*keys::of_shard(row.number, Part::Turn, shard, &place.key))?;
        findings
            .expect(turn.is_some() == is_free, format_args!("message {id} has no turn, or is not free and has one"));
        Ok(())
    }

    /// Compares all that was seen with what is counted.
    pub(super) fn compare<T: Table>(
        self,
        view: &View<T>,
        number: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let counted: BTreeMap<u16, Counts> = view.all_counts(number)?.into_iter().collect();
        findings.expect(
            counted == self.counts,
            format_args!("of the shards {counted:?} is counted, {:?} is there", self.counts),
        );
        let turns = view.all_of(number, Part::Turn)?.count();
        findings.expect(turns == self.turns, format_args!("{} messages have {turns} turns", self.turns));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::domain::{
        Body, ClientIdRule, Metadata, NewClaim, NewMessage, ProjectId, QueueId, Sharding, Tenant, Term,
    };
    use crate::storage::embedded::EmbeddedStore;
    use crate::storage::embedded::writer::Step;
    use crate::storage::embedded::writing::Writing;
    use crate::storage::{ClaimStore, MessageStore, Post, QueueStore, Upkeep};

    /// A fair queue with a free message and a claimed one.
    async fn fair_queue(store: &EmbeddedStore) -> QueueId {
        let queue = QueueId::new(ProjectId::new("p").unwrap(), "work".parse().unwrap()).unwrap();
        let keys = json!({ "_shards": 2, "_shards_per_tenant": 1 });
        let metadata = Metadata::from_store(keys.as_object().unwrap().clone());
        store.create_queue(&queue, &metadata).await.unwrap();
        let seen = store.get_queue(&queue).await.unwrap().unwrap().revision;
        let lot = Arc::new(Sharding::new(2, 1).unwrap().draw(&Tenant::new("a").unwrap()));
        let body = Body::from_msgpack(Bytes::from_static(b"\x01"));
        let message = NewMessage { ttl_s: 60, delay_s: 0, body, lot: Some(lot) };
        let client = ClientIdRule::Text(1..=9).parse("a client").unwrap();
        let post = Post { seen, client: &client, messages: &[message.clone(), message], once: None };
        store.post_messages(&queue, &post).await.unwrap();
        let claim = NewClaim { limit: 1, term: Term { ttl_s: 60, grace_s: 60 }, prefer: Vec::new() };
        store.create_claim(&queue, &claim).await.unwrap().unwrap();
        queue
    }

    type Damage = fn(&mut Writing<'_>, u64, u16) -> Result<(), Error>;

    #[tokio::test]
    async fn a_check_finds_each_kind_of_damage_to_shards() {
        let damages: [(Damage, &str); 6] = [
            (|_, _, _| Ok(()), ""),
            (
                |store, number, shard| store.take(&keys::of_shard(number, Part::Shard, shard, &[])).map(|_| ()),
                "is counted",
            ),
            (
                |store, number, shard| store.put(&keys::of_shard(number, Part::Turn, shard, &[0; 12]), &[]),
                "1 messages have 2 turns",
            ),
            (|store, number, _| store.count(number, |state| state.sharded += 1), "is counted"),
            (|store, number, _| store.count(number, |state| state.boundary = state.last), "before there were shards"),
            (
                |store, number, shard| {
                    let place = store.view.places(number, Part::Ready, 0)?.next().expect("one is free")?;
                    store.leave_shard(number, &place)?;
                    store.put(&keys::of_message(number, Part::Ready, &place.key), &[])?;
                    store.take(&keys::of_shard(number, Part::Turn, shard, &place.key)).map(|_| ())
                },
                "has no shard",
            ),
        ];
        for (damage, finding) in damages {
            let store = EmbeddedStore::in_memory().unwrap();
            let queue = fair_queue(&store).await;
            let run = store.write(0, move |store| {
                let number = store.row(&queue)?.expect("it is there").number;
                let place = store.view.places(number, Part::Ready, 0)?.next().expect("one is free")?;
                damage(store, number, place.shard.expect("it has one")).map(Step::Done)
            });
            run.await.unwrap();

            let findings = store.check().await.unwrap().findings;

            assert_eq!(findings.is_empty(), finding.is_empty(), "{findings:?}");
            assert!(finding.is_empty() || findings.iter().any(|one| one.contains(finding)), "{finding}: {findings:?}");
        }
    }
}
