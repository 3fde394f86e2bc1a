//! Counts and turns of shards stay correct, and a check finds damage to them.

use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::rows::shard_counts::Block;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::tests::fair_queue;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::{ClaimStore, Error, Maintenance, MessageStore};
use sukkal_domain::{ClaimId, ClientId, NewClaim, QueueId, Term};

/// Returns the number of rows of a part.
async fn count(store: &EmbeddedStore, queue: &QueueId, part: Part) -> usize {
    let queue = queue.clone();
    let count = store.write(0, move |store| {
        let number = store.row(&queue)?.expect("it is there").number;
        Ok(Step::Done(store.view.all_of(number, part)?.count()))
    });
    count.await.unwrap()
}

#[tokio::test]
async fn passed_entries_are_removed_and_messages_may_return() {
    const POSTED: usize = 300;
    let store = EmbeddedStore::in_memory().unwrap();
    let (queue, first) = fair_queue(&store, POSTED).await;
    let whole = async || assert_eq!(store.check().await.unwrap().findings, [""; 0]);

    let mut claims = Vec::new();
    for taken in (20..=200).step_by(20) {
        let claim = NewClaim {
            limit: 20,
            term: Term { ttl_s: 60, grace_s: 60 },
            preferred_shards: Vec::new(),
            client: ClientId::from_store("worker"),
        };
        claims.push(store.create_claim(&queue, ClaimId::random(), &claim).await.unwrap().messages().unwrap().id);
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
        while let Some(next) = store.pop_messages(&queue, ClaimId::random(), 30).await.unwrap().messages() {
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

type Damage = fn(&mut WriteTransaction<'_>, u64, u16) -> Result<(), Error>;

#[tokio::test]
async fn a_check_finds_each_kind_of_damage_to_shards() {
    let damages: [(Damage, &str); 9] = [
        (|_, _, _| Ok(()), ""),
        (
            |store, number, shard| {
                store.remove_key(&keys::shard(number, Part::Shard, Block::number_of(shard), &[])).map(|_| ())
            },
            "the stored counts of shards",
        ),
        (
            |store, number, shard| store.put(&keys::shard(number, Part::Turn, shard, &[255; 12]), &[]),
            "1 messages have 2 turns",
        ),
        (|store, number, shard| store.put(&keys::shard(number, Part::Turn, shard, &[0; 12]), &[]), "1}, but there are"),
        (
            |store, number, shard| {
                let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
                store.put(&keys::shard(number, Part::Turn, shard, located.key()), &[0; 16])
            },
            "a turn with another entry",
        ),
        (|store, number, _| store.change_state(number, |state| state.busy = 2), "bits of busy blocks"),
        (|store, number, _| store.change_state(number, |state| state.sharded += 1), "the stored counts are"),
        (
            |store, number, _| store.change_state(number, |state| state.boundary = state.last),
            "before the queue became fair",
        ),
        (
            |store, number, shard| {
                let located = store.view.entries(number, Part::Ready, 0)?.next().expect("one is free")?;
                store.leave_shard(number, &located)?;
                store.put_entry(number, &Located { shard: None, ..located })?;
                store.remove_key(&keys::shard(number, Part::Turn, shard, located.key())).map(|_| ())
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
