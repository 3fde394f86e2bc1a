//! A round in which messages become dead letters while claims and pops wait for the dead letters
//! and for other messages of their source queue.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use sukkal::auth::Caller;
use sukkal::broker::Broker;
use sukkal_domain::{Body, ClaimId, Metadata, NewClaim, QueueId, Term};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::rounds::{self, ROUND_TIMEOUT, TestQueue, Unavailable, WAIT_S};

/// Pause between two rounds of what stands for the janitor.
const JANITOR_PAUSE: Duration = Duration::from_secs(1);

impl TestQueue {
    /// Messages are claimed as often as their queue allows, and released at a random time while as
    /// many others are posted. Consumers wait for these and for the dead letters. Each consumer
    /// gets one message, each message is delivered to one consumer, and each dead letter arrives
    /// once.
    pub(super) async fn dead_letter_round(&mut self, parties: usize) -> Result<(), Unavailable> {
        let [source, dead] = ["source", "dead"].map(|kind| self.queue_named(kind));
        if self.is_new() {
            let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": dead.name().to_string() });
            let Value::Object(keys) = keys else { unreachable!("it is an object") };
            self.store().create_queue(&source, &Metadata::from_store((&keys).into())).await?;
        }
        let expiring: Vec<u64> = (0..parties as u64).collect();
        let fresh: Vec<u64> = (100..100 + parties as u64).collect();
        self.post_numbers(&source, &expiring).await?;
        let term = Term { ttl_s: 600, grace_s: 60 };
        let new = NewClaim { limit: parties, term, preferred_shards: Vec::new(), client: self.client().clone() };
        let claim =
            self.store().create_claim(&source, ClaimId::random(), &new).await?.messages().expect("they are available");
        assert_eq!(claim.messages.len(), parties);

        let mut takers = JoinSet::new();
        for is_dead in [false, true] {
            for _ in 0..parties {
                let (broker, after, pops) = (self.broker(), self.moment(), self.below(2) == 0);
                let queue = if is_dead { dead.clone() } else { source.clone() };
                let caller = self.caller();
                takers.spawn(async move {
                    sleep(after).await;
                    Ok::<_, Unavailable>((is_dead, take(&broker, &caller, queue, pops, WAIT_S).await?))
                });
            }
        }
        let is_released_first = self.below(2) == 0;
        for step in 0..2 {
            sleep(self.moment() / 2).await;
            if (step == 0) == is_released_first {
                self.store().release_claim(&source, claim.id).await?;
            } else {
                self.post_numbers(&source, &fresh).await?;
            }
        }

        let mut taken = [BTreeSet::new(), BTreeSet::new()];
        let mut left = parties;
        let all = async {
            loop {
                let one = match timeout(JANITOR_PAUSE, takers.join_next()).await {
                    Ok(Some(one)) => one,
                    Ok(None) => break,
                    // A dead letter that could not be forwarded waits for the next claim. In a
                    // service, the janitor forwards it.
                    Err(_) if left == 0 => {
                        let more = take(&self.broker(), &self.caller(), source.clone(), false, 0).await?;
                        assert_eq!(more, None, "{}", self.description());
                        continue;
                    }
                    Err(_) => continue,
                };
                let (is_dead, number) = one.unwrap()?;
                let number = number.unwrap_or_else(|| panic!("nothing came, {}", self.description()));
                assert!(taken[usize::from(is_dead)].insert(number), "{number} came twice, {}", self.description());
                left -= usize::from(!is_dead);
                if left == 0 && !is_dead {
                    // Messages released after the last consumer become dead letters with the next
                    // claims.
                    for _ in &expiring {
                        let more = take(&self.broker(), &self.caller(), source.clone(), false, 0).await?;
                        assert_eq!(more, None, "{}", self.description());
                    }
                }
            }
            Ok::<_, Unavailable>(())
        };
        let in_time = timeout(ROUND_TIMEOUT, all).await;
        let waits = || format!("a consumer waits although messages are available, {}", self.description());
        in_time.unwrap_or_else(|_| panic!("{}: {taken:?}", waits()))?;
        let [living, dying] = taken.map(|numbers| numbers.into_iter().collect::<Vec<_>>());
        assert_eq!((living, dying), (fresh, expiring), "{}", self.description());
        for queue in [source, dead] {
            let more = take(&self.broker(), &self.caller(), queue, false, 0).await?;
            assert_eq!(more, None, "too much arrived, {}", self.description());
        }
        Ok(())
    }

    async fn post_numbers(&mut self, queue: &QueueId, numbers: &[u64]) -> Result<(), Unavailable> {
        let body = |number| Body::from_msgpack(rmp_serde::to_vec(number).unwrap().into());
        self.post(queue, numbers.iter().map(body).collect()).await
    }
}

/// Takes one message and deletes it; returns the number in its body.
async fn take(
    broker: &Broker,
    caller: &Caller,
    queue: QueueId,
    pops: bool,
    wait_s: i64,
) -> Result<Option<u64>, Unavailable> {
    let body = rounds::take(broker, caller, queue, pops, wait_s).await?;
    Ok(body.map(|body| rmp_serde::from_slice(body.as_msgpack()).expect("it is a number")))
}
