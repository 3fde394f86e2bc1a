//! Concurrent workers on one queue: no message has two holders, is lost, or comes back after its
//! deletion.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sukkal_domain::{ClaimId, MessageId, QueueId};
use sukkal_storage::DeleteOutcome;

use crate::conformance::support::subject::{LONG_S, Subject, ids_of, messages};
use support::random::{Random, seed};

const WORKERS: u64 = 12;
const STEPS: usize = 80;
const POSTED: usize = 300;

/// The claim that holds each message as far as the workers know: entered after a claim, removed
/// before its release.
type Holders = Arc<Mutex<HashMap<MessageId, Holder>>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Holder {
    Claim(ClaimId),
    Deleted,
}

pub(in crate::conformance) async fn a_message_has_at_most_one_holder(subject: &Subject) {
    let seed = seed();
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, POSTED)).await;
    let holders = Holders::default();

    let workers: Vec<_> = (1..=WORKERS)
        .map(|worker| tokio::spawn(work(subject.clone(), queue.clone(), holders.clone(), Random::new(seed, worker, 0))))
        .collect();
    for worker in workers {
        worker.await.expect("no worker fails");
    }

    let gone =
        |id: &MessageId| holders.lock().unwrap_or_else(PoisonError::into_inner).get(id) == Some(&Holder::Deleted);
    let left: Vec<_> = ids.iter().copied().filter(|id| !gone(id)).collect();
    assert!(left.len() < POSTED, "nothing was deleted");
    subject.assert_available_and_claimed(&queue, &left, &[]).await;
}

async fn work(subject: Subject, queue: QueueId, holders: Holders, mut random: Random) {
    let mut own: Vec<(ClaimId, Vec<MessageId>)> = Vec::new();
    for step in 0..STEPS {
        let ending = step + 10 > STEPS;
        if own.len() < 3
            && !ending
            && let Some(claim) = subject.claim_for(&queue, random.below(20) + 1, 3_600, 60).await
        {
            let ids = ids_of(&claim.messages);
            add_holders(&holders, claim.id, &ids);
            own.push((claim.id, ids));
        }
        if own.is_empty() {
            continue;
        }
        let at = random.below(own.len());
        let (claim, ids) = &mut own[at];
        match random.below(if ending { 1 } else { 4 }) {
            // The claim has ended with its last message.
            _ if ids.is_empty() => {
                assert_eq!(subject.held_by(&queue, *claim).await, None);
                own.swap_remove(at);
            }
            0 => {
                remove_holders(&holders, ids);
                subject.release(&queue, *claim).await;
                own.swap_remove(at);
            }
            1 if random.below(4) == 0 => {
                let id = ids.remove(random.below(ids.len()));
                assert_eq!(subject.delete_with_claim(&queue, id, Some(*claim)).await, DeleteOutcome::Done);
                holders.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Holder::Deleted);
            }
            2 => assert!(subject.renew(&queue, *claim, 7_200, 60).await.is_some()),
            _ => assert_eq!(subject.held_by(&queue, *claim).await.as_ref(), Some(&*ids)),
        }
    }
    assert!(own.is_empty(), "the last step releases");
}

fn add_holders(holders: &Holders, claim: ClaimId, ids: &[MessageId]) {
    let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
    for id in ids {
        let before = holders.insert(*id, Holder::Claim(claim));
        assert_eq!(before, None, "{id} is also held by {claim}");
    }
}

fn remove_holders(holders: &Holders, ids: &[MessageId]) {
    let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
    for id in ids {
        holders.remove(id);
    }
}
