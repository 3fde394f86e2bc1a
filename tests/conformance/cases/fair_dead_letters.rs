//! Dead letters that leave fair queues, and dead letters that enter them.

use serde_json::json;
use sukkal_domain::{Message, QueueId, Sharding, Tenant};

use super::fair_helpers::{TTL_S, in_shard, pick};
use crate::conformance::support::subject::{Subject, client, ids_of};

impl Subject {
    /// Creates a fair queue that delivers each message `claim_count_max` times, and returns it with
    /// its dead-letter queue.
    async fn fair_queue_and_dead_letters(&self, claim_count_max: u32) -> (QueueId, QueueId) {
        let keys = json!({ "_shards": 8, "_max_claim_count": claim_count_max, "_dead_letter_queue": "letters" });
        (self.queue_of("q", keys).await, self.id("letters"))
    }

    /// Claims the messages of one shard and releases the claim.
    async fn claim_and_release_shard(&self, queue: &QueueId, shard: u16) {
        let claim = self.claim_from(queue, &[shard], 1_000).await.expect("a message is available");
        self.release(queue, claim.id).await;
    }
}

pub(in crate::conformance) async fn a_dead_letter_uses_its_turn_and_leaves_its_shard(subject: &Subject) {
    let (queue, dead_letters) = subject.fair_queue_and_dead_letters(1).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 1, 2, 3, 4]).await;
    subject.claim_and_release_shard(&queue, 2).await;
    subject.claim_and_release_shard(&queue, 3).await;

    // Three messages may be delivered and two may not. All five use their turn.
    assert_eq!(subject.claimed_ids(&queue, 5, TTL_S).await, pick(&ids, &[0, 6, 3]));
    let dead = subject.arrived(&dead_letters, 2).await;
    assert_eq!(
        dead.iter().map(|dead_letter| dead_letter.origin.as_ref().map(|origin| origin.id)).collect::<Vec<_>>(),
        [Some(ids[1]), Some(ids[2])]
    );
    let expected = vec![(1, [0, 0, 2]), (2, [1, 0, 0]), (3, [1, 0, 0]), (4, [0, 0, 1])];
    assert_eq!(subject.holdings(&queue).await, (expected, [0; 3]));
    // A claim that finds only dead letters moves the turn too, here to shard 3.
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, []);
    assert_eq!(subject.arrived(&dead_letters, 4).await.len(), 4);
    let more = subject.post_into(&queue, &[0, 2, 5]).await;
    assert_eq!(subject.claimed_ids(&queue, 4, TTL_S).await, pick(&more, &[2, 0, 1]));
}

pub(in crate::conformance) async fn a_pop_of_a_fair_queue_respects_max_claim_count(subject: &Subject) {
    let (queue, dead_letters) = subject.fair_queue_and_dead_letters(1).await;
    let ids = subject.post_into(&queue, &[1, 2, 3]).await;
    subject.claim_and_release_shard(&queue, 2).await;

    assert_eq!(ids_of(&subject.pop(&queue, 9).await), pick(&ids, &[0, 2]));
    assert_eq!(subject.arrived(&dead_letters, 1).await.len(), 1);
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [0; 3]));
}

pub(in crate::conformance) async fn dead_letters_go_to_the_shards_assigned_to_their_tenants(subject: &Subject) {
    let dead_letters = subject.queue_of("letters", json!({ "_shards": 64, "_shards_per_tenant": 2 })).await;
    for (name, shards) in [("plain", 1), ("fair", 8)] {
        let keys = json!({ "_shards": shards, "_max_claim_count": 1, "_dead_letter_queue": "letters" });
        let queue = subject.queue_of(name, keys).await;
        for poster in [7, 7, 8, 7] {
            subject.post_as(&client(poster), &queue, &[in_shard(3)]).await;
        }
        subject.deliver_once(&queue, 4).await;

        assert_eq!(subject.claimed_ids(&queue, 4, TTL_S).await, []);

        let dead = subject.arrived(&dead_letters, 4).await;
        let sharding = Sharding::new(64, 2).expect("it is one");
        let assigned = |dead_letter: &Message| sharding.assign(&Tenant::of_poster(dead_letter.poster)).shards;
        let [busy, other] = [assigned(&dead[0]), assigned(&dead[2])];
        assert!(busy != other && busy == assigned(&dead[3]), "clients are distinguished");
        let mut expected: Vec<(u16, u64)> = vec![(busy[0].number(), 2), (busy[1].number(), 1), (other[0].number(), 1)];
        expected.sort_unstable();
        assert_eq!(subject.available(&dead_letters).await, expected, "from a {name} queue");
        assert_eq!(subject.details(&dead_letters).await.tenants, [], "dead letters do not count as posts");
        // One dead letter of each shard, in the order of the shards.
        let turns: Vec<_> = subject.claimed_ids(&dead_letters, 3, TTL_S).await;
        assert!(
            turns.contains(&dead[2].id),
            "the other queue's dead letter does not wait for all of the first queue's"
        );
        subject.store().purge_queue(&dead_letters).await.expect("the store answers");
    }
}

pub(in crate::conformance) async fn a_fair_queue_can_be_its_own_dead_letter_queue(subject: &Subject) {
    let keys = json!({ "_shards": 8, "_shards_per_tenant": 1, "_max_claim_count": 1, "_dead_letter_queue": "q" });
    let queue = subject.queue_of("q", keys).await;
    let ids = subject.post_into(&queue, &[1, 2]).await;
    subject.claim_and_release_shard(&queue, 1).await;
    let poster = subject.get_messages(&queue, &ids[..1]).await[0].poster;

    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, []);
    subject.arrived(&queue, 2).await;

    let sharding = Sharding::new(8, 1).expect("it is one");
    let assigned = sharding.assign(&Tenant::of_poster(poster)).shards[0].number();
    let mut expected = vec![2, assigned];
    expected.sort_unstable();
    expected.dedup();
    let reported: Vec<_> = subject.available(&queue).await.iter().map(|(shard, _)| *shard).collect();
    assert_eq!(reported, expected);
    assert_eq!(subject.count(&queue).await, 2);
}
