//! Dead letters out of fair queues, and into them.

use serde_json::json;
use sukkal::domain::{Message, QueueId, Sharding, Tenant};

use super::fairness::{TTL_S, in_shard, pick};
use super::subject::{Subject, client, ids_of};

impl Subject {
    /// A fair queue that gives each message out so often, and the queue for its dead letters.
    async fn fair_queue_and_letters(&self, claim_count_max: u32) -> (QueueId, QueueId) {
        let keys = json!({ "_shards": 8, "_max_claim_count": claim_count_max, "_dead_letter_queue": "letters" });
        (self.queue_of("q", keys).await, self.id("letters"))
    }

    async fn letters_of(&self, letters: &QueueId) -> Vec<Message> {
        self.list(letters, None, 1_000).await
    }

    /// Claims these shards' messages and lets them go.
    async fn try_shard_in_vain(&self, queue: &QueueId, shard: u16) {
        let claim = self.claim_from(queue, &[shard], 1_000).await.expect("something is there");
        self.release(queue, claim.id).await;
    }
}

pub(super) async fn a_dead_letter_has_its_turn_and_leaves_its_shard(subject: &Subject) {
    let (queue, letters) = subject.fair_queue_and_letters(1).await;
    let ids = subject.post_into(&queue, &[1, 2, 3, 1, 2, 3, 4]).await;
    subject.try_shard_in_vain(&queue, 2).await;
    subject.try_shard_in_vain(&queue, 3).await;

    // Three that may be given out and two that may not, and all five have had their turn.
    assert_eq!(subject.claimed_ids(&queue, 5, TTL_S).await, pick(&ids, &[0, 6, 3]));
    let dead = subject.letters_of(&letters).await;
    assert_eq!(
        dead.iter().map(|letter| letter.origin.as_ref().map(|origin| origin.id)).collect::<Vec<_>>(),
        [Some(ids[1]), Some(ids[2])]
    );
    let expected = vec![(1, [0, 0, 2]), (2, [1, 0, 0]), (3, [1, 0, 0]), (4, [0, 0, 1])];
    assert_eq!(subject.holdings(&queue).await, (expected, [0; 3]));
    // A claim that finds nothing but letters moves the turn too, here to 2.
    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, []);
    let more = subject.post_into(&queue, &[0, 2, 5]).await;
    assert_eq!(subject.claimed_ids(&queue, 4, TTL_S).await, pick(&more, &[2, 0, 1]));
    assert_eq!(subject.letters_of(&letters).await.len(), 4);
}

pub(super) async fn a_pop_of_a_fair_queue_counts_and_obeys_the_count(subject: &Subject) {
    let (queue, letters) = subject.fair_queue_and_letters(1).await;
    let ids = subject.post_into(&queue, &[1, 2, 3]).await;
    subject.try_shard_in_vain(&queue, 2).await;

    assert_eq!(ids_of(&subject.pop(&queue, 9).await), pick(&ids, &[0, 2]));
    assert_eq!(subject.letters_of(&letters).await.len(), 1);
    assert_eq!(subject.holdings(&queue).await, (Vec::new(), [0; 3]));
}

pub(super) async fn dead_letters_go_to_the_shards_that_their_posters_draw(subject: &Subject) {
    let letters = subject.queue_of("letters", json!({ "_shards": 64, "_shards_per_tenant": 2 })).await;
    for (name, shards) in [("plain", 1), ("fair", 8)] {
        let keys = json!({ "_shards": shards, "_max_claim_count": 0, "_dead_letter_queue": "letters" });
        let queue = subject.queue_of(name, keys).await;
        for poster in [7, 7, 8, 7] {
            subject.post_as(&client(poster), &queue, &[in_shard(3)]).await;
        }

        assert_eq!(subject.claimed_ids(&queue, 4, TTL_S).await, []);

        let dead = subject.letters_of(&letters).await;
        let sharding = Sharding::new(64, 2).expect("it is one");
        let drawn = |letter: &Message| sharding.draw(&Tenant::of_poster(letter.poster)).shards;
        let [busy, other] = [drawn(&dead[0]), drawn(&dead[2])];
        assert!(busy != other && busy == drawn(&dead[3]), "posters are told apart");
        let mut expected: Vec<(u16, u64)> = vec![(busy[0].number(), 2), (busy[1].number(), 1), (other[0].number(), 1)];
        expected.sort_unstable();
        assert_eq!(subject.available(&letters).await, expected, "from a {name} queue");
        assert_eq!(subject.details(&letters).await.tenants, [], "letters are nobody's posts");
        // One letter of each shard, in their order.
        let turns: Vec<_> = subject.claimed_ids(&letters, 3, TTL_S).await;
        assert!(turns.contains(&dead[2].id), "the other's letter does not wait for all of the first one's");
        subject.store().purge_messages(&letters).await.expect("the store answers");
    }
}

pub(super) async fn a_fair_queue_may_be_its_own_dead_letter_queue(subject: &Subject) {
    let keys = json!({ "_shards": 8, "_shards_per_tenant": 1, "_max_claim_count": 1, "_dead_letter_queue": "q" });
    let queue = subject.queue_of("q", keys).await;
    let ids = subject.post_into(&queue, &[1, 2]).await;
    subject.try_shard_in_vain(&queue, 1).await;
    let poster = subject.get_messages(&queue, &ids[..1]).await[0].poster;

    assert_eq!(subject.claimed_ids(&queue, 1, TTL_S).await, []);

    let sharding = Sharding::new(8, 1).expect("it is one");
    let drawn = sharding.draw(&Tenant::of_poster(poster)).shards[0].number();
    let mut expected = vec![2, drawn];
    expected.sort_unstable();
    expected.dedup();
    let told: Vec<_> = subject.available(&queue).await.iter().map(|(shard, _)| *shard).collect();
    assert_eq!(told, expected);
    assert_eq!(subject.count(&queue).await, 2);
}
