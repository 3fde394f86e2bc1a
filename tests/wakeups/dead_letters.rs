//! A round in which messages become dead letters while claims and pops wait for them and for what they came from.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use sukkal::broker::Broker;
use sukkal::broker::claims::ClaimRequest;
use sukkal::broker::messages::{Delay, Draft, PostRequest, TenantDraft};
use sukkal::domain::{Body, Metadata, NewClaim, QueueId, Term};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::rounds::{Lane, PATIENCE, WAIT_S};

impl Lane {
    /// Messages are claimed once, which is as often as their queue allows, and released at a random moment, while as
    /// many others are posted. Takers wait for these, and for the dead letters. Everybody gets one message, every
    /// message is delivered to one of them, and each dead letter arrives once.
    pub(super) async fn dead_letter_round(&mut self, parties: usize) {
        let [source, dead] = ["source", "dead"].map(|kind| self.queue_named(kind));
        if self.is_first() {
            let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": dead.name().to_string() });
            let Value::Object(keys) = keys else { unreachable!("it is an object") };
            self.store().create_queue(&source, &Metadata::from_store(keys)).await.unwrap();
        }
        let doomed: Vec<u64> = (0..parties as u64).collect();
        let fresh: Vec<u64> = (100..100 + parties as u64).collect();
        self.post_numbers(&source, &doomed).await;
        let term = Term { ttl_s: 600, grace_s: 60 };
        let new = NewClaim { limit: parties, term, prefer: Vec::new() };
        let claim = self.store().create_claim(&source, &new).await.unwrap().expect("they are available");
        assert_eq!(claim.messages.len(), parties);

        let mut takers = JoinSet::new();
        for is_dead in [false, true] {
            for _ in 0..parties {
                let (broker, after, pops) = (self.broker(), self.moment(), self.below(2) == 0);
                let queue = if is_dead { dead.clone() } else { source.clone() };
                takers.spawn(async move {
                    sleep(after).await;
                    (is_dead, take(&broker, queue, pops, WAIT_S).await)
                });
            }
        }
        let is_released_first = self.below(2) == 0;
        for step in 0..2 {
            sleep(self.moment() / 2).await;
            if (step == 0) == is_released_first {
                self.store().release_claim(&source, claim.id).await.unwrap();
            } else {
                self.post_numbers(&source, &fresh).await;
            }
        }

        let mut taken = [BTreeSet::new(), BTreeSet::new()];
        let mut left = parties;
        let all = async {
            while let Some(one) = takers.join_next().await {
                let (is_dead, number) = one.unwrap();
                let number = number.unwrap_or_else(|| panic!("nothing came, {}", self.place()));
                assert!(taken[usize::from(is_dead)].insert(number), "{number} came twice, {}", self.place());
                left -= usize::from(!is_dead);
                if left == 0 && !is_dead {
                    // What was released behind the last taker becomes dead letters with the next claims.
                    for _ in &doomed {
                        assert_eq!(take(&self.broker(), source.clone(), false, 0).await, None, "{}", self.place());
                    }
                }
            }
        };
        let in_time = timeout(PATIENCE, all).await.is_ok();
        assert!(in_time, "somebody waits although messages are available, {}: {taken:?}", self.place());
        let [living, dying] = taken.map(|numbers| numbers.into_iter().collect::<Vec<_>>());
        assert_eq!((living, dying), (fresh, doomed), "{}", self.place());
        for queue in [source, dead] {
            assert_eq!(take(&self.broker(), queue, false, 0).await, None, "too much arrived, {}", self.place());
        }
    }

    async fn post_numbers(&mut self, queue: &QueueId, numbers: &[u64]) {
        let draft = |number: &u64| {
            let body = Body::from_msgpack(rmp_serde::to_vec(number).unwrap().into());
            Draft { ttl_s: None, delay: Delay::Unset, tenant: TenantDraft::Unset, body }
        };
        let drafts = numbers.iter().map(draft).collect();
        let request = PostRequest { drafts, bytes: 0, once: None };
        let (broker, caller) = (self.broker(), self.caller());
        broker.post_messages(&caller, queue.clone(), request).await.unwrap();
    }
}

/// Takes one message for good, and returns the number in it.
async fn take(broker: &Broker, queue: QueueId, pops: bool, wait_s: i64) -> Option<u64> {
    let number = |body: &Body| rmp_serde::from_slice(body.as_msgpack()).expect("it is a number");
    if pops {
        let taken = broker.pop_messages(queue, 1, Some(wait_s)).await.unwrap();
        taken.way_back.delivered();
        return taken.value.first().map(|popped| number(&popped.body));
    }
    let wanted = ClaimRequest { limit: Some(1), wait_s: Some(wait_s), ..ClaimRequest::default() };
    let taken = broker.create_claim(queue.clone(), wanted).await.unwrap()?;
    taken.way_back.delivered();
    let message = &taken.value.messages[0];
    broker.delete_messages(queue, &[message.id.to_string()], &[]).await.unwrap();
    Some(number(&message.body))
}
