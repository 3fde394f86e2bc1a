//! Workers at once on one queue: no message has two holders, and none is lost or comes back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use sukkal::domain::{ClaimId, MessageId, QueueId};
use sukkal::storage::{ClaimChange, Deletion};

use super::seed::{Dice, seed};
use super::subject::{LONG_S, Subject, ids_of, messages};

const WORKERS: u64 = 12;
const MOVES: usize = 80;
const POSTED: usize = 300;

/// Who has what, as the workers know it: entered after a claim, taken out before its release.
type Holders = Arc<Mutex<HashMap<MessageId, Holder>>>;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Holder {
    Claim(ClaimId),
    Deleted,
}

pub(super) async fn no_message_has_two_holders_at_once(subject: &Subject) {
    let seed = seed();
    let queue = subject.queue("q").await;
    let ids = subject.post(&queue, &messages(LONG_S, POSTED)).await;
    let holders = Holders::default();

    let workers: Vec<_> = (1..=WORKERS)
        .map(|worker| tokio::spawn(work(subject.clone(), queue.clone(), holders.clone(), Dice::new(seed, worker))))
        .collect();
    for worker in workers {
        worker.await.expect("no worker sees a lie");
    }

    let gone =
        |id: &MessageId| holders.lock().unwrap_or_else(PoisonError::into_inner).get(id) == Some(&Holder::Deleted);
    let left: Vec<_> = ids.iter().copied().filter(|id| !gone(id)).collect();
    assert!(left.len() < POSTED, "nothing was deleted");
    subject.assert_held(&queue, &left, &[]).await;
}

async fn work(subject: Subject, queue: QueueId, holders: Holders, mut dice: Dice) {
    let mut own: Vec<(ClaimId, Vec<MessageId>)> = Vec::new();
    for step in 0..MOVES {
        let ending = step + 10 > MOVES;
        if own.len() < 3
            && !ending
            && let Some(claim) = subject.claim_for(&queue, dice.roll(20) + 1, 3_600, 60).await
        {
            let ids = ids_of(&claim.messages);
            take(&holders, claim.id, &ids);
            own.push((claim.id, ids));
        }
        if own.is_empty() {
            continue;
        }
        let at = dice.roll(own.len());
        let (claim, ids) = &mut own[at];
        match dice.roll(if ending { 1 } else { 4 }) {
            0 => {
                give_back(&holders, ids);
                subject.release(&queue, *claim).await;
                own.swap_remove(at);
            }
            1 if dice.roll(4) == 0 && !ids.is_empty() => {
                let id = ids.remove(dice.roll(ids.len()));
                assert_eq!(subject.acknowledge(&queue, id, Some(*claim)).await, Deletion::Done);
                holders.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Holder::Deleted);
            }
            2 => assert_eq!(subject.renew(&queue, *claim, 7_200, 60).await, ClaimChange::Done),
            _ => assert_eq!(subject.held_by(&queue, *claim).await.as_ref(), Some(&*ids)),
        }
    }
    assert!(own.is_empty(), "the last moves release");
}

fn take(holders: &Holders, claim: ClaimId, ids: &[MessageId]) {
    let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
    for id in ids {
        let before = holders.insert(*id, Holder::Claim(claim));
        assert_eq!(before, None, "{id} is {claim}'s too");
    }
}

fn give_back(holders: &Holders, ids: &[MessageId]) {
    let mut holders = holders.lock().unwrap_or_else(PoisonError::into_inner);
    for id in ids {
        holders.remove(id);
    }
}
