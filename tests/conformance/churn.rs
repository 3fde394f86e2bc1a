//! Queues created and deleted at random by many at once, under lists and upkeep: at the end the list
//! tells the truth, and to whoever is alone with a queue it tells the truth all the time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sukkal::domain::{Metadata, Revision};

use super::seed::{Dice, seed};
use super::subject::{LONG_S, Subject, client, messages};

const CONTENDED: [&str; 3] = ["x", "y", "z"];
const PLAYERS: u64 = 8;
const MOVES: usize = 60;

pub(super) async fn every_queue_that_exists_is_listed_whatever_happened(subject: &Subject) {
    let seed = seed();
    let over = Arc::new(AtomicBool::new(false));
    let watchers = [
        tokio::spawn(list_until(subject.clone(), over.clone())),
        tokio::spawn(tidy_until(subject.clone(), over.clone())),
    ];

    let players: Vec<_> =
        (1..=PLAYERS).map(|player| tokio::spawn(play(subject.clone(), player, Dice::new(seed, player)))).collect();
    for player in players {
        player.await.expect("no player sees a lie");
    }
    over.store(true, Ordering::Relaxed);
    for watcher in watchers {
        watcher.await.expect("no watcher sees a lie");
    }

    let existing = existing(subject).await;
    assert_eq!(subject.names(subject.project(), None, 100).await, existing);
    assert_eq!(subject.count_queues().await, existing.len(), "the count is not the list's");
    for name in existing {
        subject.delete(&subject.id(&name)).await;
    }
    assert_eq!(subject.names(subject.project(), None, 100).await, [""; 0]);
    assert_eq!(subject.count_queues().await, 0);
}

/// Does anything to the contended queues, and checks with one of its own, which nobody else touches.
async fn play(subject: Subject, player: u64, mut dice: Dice) {
    let own = subject.id(&format!("own-{player}"));
    let mut own_exists = false;
    for _ in 0..MOVES {
        let contended = subject.id(CONTENDED[dice.roll(CONTENDED.len())]);
        match dice.roll(6) {
            0 | 1 => {
                subject.store().create_queue(&contended, &Metadata::default()).await.expect("the store answers");
            }
            2 | 3 => subject.delete(&contended).await,
            4 => {
                let seen = subject.get(&contended).await.map_or(Revision(0), |queue| queue.revision);
                let update = subject.store().update_queue(&contended, seen, &Metadata::default()).await;
                update.expect("the store answers");
            }
            _ => {
                if own_exists {
                    subject.delete(&own).await;
                } else {
                    subject.create(&own).await;
                }
                own_exists = !own_exists;
            }
        }
        let listed = subject.names(subject.project(), None, 100).await;
        let own_is_listed = listed.iter().any(|name| name == own.name().as_str());
        assert_eq!(own_is_listed, own_exists, "{own}: {listed:?}");
    }
}

/// Lists without a pause; no list is out of order, and no queue goes back to an earlier revision.
async fn list_until(subject: Subject, over: Arc<AtomicBool>) {
    let mut last = std::collections::HashMap::new();
    while !over.load(Ordering::Relaxed) {
        let listed = subject.queues(100).await;
        assert!(listed.windows(2).all(|pair| pair[0].0 < pair[1].0), "out of order: {listed:?}");
        for (name, queue) in listed {
            let before = last.insert(name.clone(), queue.revision);
            assert!(before <= Some(queue.revision), "{name}: {:?} after {before:?}", queue.revision);
        }
    }
}

async fn tidy_until(subject: Subject, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        subject.tidy_project().await;
    }
}

async fn existing(subject: &Subject) -> Vec<String> {
    let own = (1..=PLAYERS).map(|player| format!("own-{player}"));
    let mut existing = Vec::new();
    for name in own.chain(CONTENDED.map(str::to_owned)) {
        if subject.get(&subject.id(&name)).await.is_some() {
            existing.push(name);
        }
    }
    existing
}

pub(super) async fn a_queue_that_is_created_and_deleted_by_many_is_one_queue(subject: &Subject) {
    use sukkal::storage::{Creation, Posting};

    let seed = seed();
    let queue = subject.id("q");
    let players: Vec<_> = (0..PLAYERS)
        .map(|player| {
            let (subject, queue) = (subject.clone(), queue.clone());
            let mut dice = Dice::new(seed, player);
            tokio::spawn(async move {
                let (mut created, mut posted) = (0, Vec::new());
                for _ in 0..MOVES {
                    match dice.roll(4) {
                        0 => {
                            let creation = subject.store().create_queue(&queue, &Metadata::default()).await;
                            created += usize::from(creation == Ok(Creation::Created));
                        }
                        1 => subject.delete(&queue).await,
                        _ => {
                            let Some(now) = subject.get(&queue).await else { continue };
                            let batch = messages(LONG_S, 3);
                            let post = subject.try_post(&queue, now.revision, &client(0), &batch).await;
                            if let Ok(Posting::Posted(ids)) = post {
                                posted.extend(ids);
                            }
                        }
                    }
                }
                super::subject::assert_ascending(&posted);
                (created, posted)
            })
        })
        .collect();
    let (mut created, mut posted) = (0, Vec::new());
    for player in players {
        let (creations, ids) = player.await.expect("no player sees a lie");
        created += creations;
        posted.extend(ids);
    }

    posted.sort_unstable();
    let given = posted.len();
    posted.dedup_by_key(|id| id.rank());
    assert_eq!(posted.len(), given, "a rank was given twice");
    // What is left was posted to the last of the queues, and so behind all that is gone.
    let feed = subject.feed(&queue).await;
    assert!(posted.ends_with(&feed), "{feed:?}");
    assert!(created > 0);
}
