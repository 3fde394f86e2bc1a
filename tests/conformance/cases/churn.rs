//! Queues that are created and deleted at random by concurrent workers, during lists and
//! maintenance. Each worker always sees the correct state of its own queue, and at the end the list
//! is correct.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sukkal_domain::{Metadata, Revision};

use crate::conformance::support::subject::{LONG_S, Subject, client, messages};
use support::random::{Random, seed};

const CONTENDED: [&str; 3] = ["x", "y", "z"];
const WORKERS: u64 = 8;
const STEPS: usize = 60;

pub(in crate::conformance) async fn the_list_matches_the_queues_that_exist_under_churn(subject: &Subject) {
    let seed = seed();
    let is_done = Arc::new(AtomicBool::new(false));
    let watchers = [
        tokio::spawn(list_until(subject.clone(), is_done.clone())),
        tokio::spawn(maintain_until(subject.clone(), is_done.clone())),
    ];

    let workers: Vec<_> = (1..=WORKERS)
        .map(|worker| tokio::spawn(run_worker(subject.clone(), worker, Random::new(seed, worker, 0))))
        .collect();
    for worker in workers {
        worker.await.expect("no worker fails");
    }
    is_done.store(true, Ordering::Relaxed);
    for watcher in watchers {
        watcher.await.expect("no watcher fails");
    }

    let existing = existing(subject).await;
    assert_eq!(subject.names(subject.project(), None, 100).await, existing);
    assert_eq!(subject.count_queues().await, existing.len(), "the count differs from the list");
    for name in existing {
        subject.delete(&subject.id(&name)).await;
    }
    assert_eq!(subject.names(subject.project(), None, 100).await, [""; 0]);
    assert_eq!(subject.count_queues().await, 0);
}

/// Changes the contended queues at random, and checks the list with a queue of its own, which no
/// other worker touches.
async fn run_worker(subject: Subject, worker: u64, mut random: Random) {
    let own = subject.id(&format!("own-{worker}"));
    let mut own_exists = false;
    for _ in 0..STEPS {
        let contended = subject.id(CONTENDED[random.below(CONTENDED.len())]);
        match random.below(6) {
            0 | 1 => {
                subject.store().create_queue(&contended, &Metadata::default()).await.expect("the store answers");
            }
            2 | 3 => subject.delete(&contended).await,
            4 => {
                let revision = subject.get(&contended).await.map_or(Revision(0), |queue| queue.revision);
                let update = subject.store().update_queue(&contended, revision, &Metadata::default()).await;
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

/// Lists without a pause. Every list is in order, and no revision ever decreases.
async fn list_until(subject: Subject, is_done: Arc<AtomicBool>) {
    let mut last = std::collections::HashMap::new();
    while !is_done.load(Ordering::Relaxed) {
        let listed = subject.queues(100).await;
        assert!(listed.windows(2).all(|pair| pair[0].0 < pair[1].0), "out of order: {listed:?}");
        for (name, queue) in listed {
            let before = last.insert(name.clone(), queue.revision);
            assert!(before <= Some(queue.revision), "{name}: {:?} after {before:?}", queue.revision);
        }
    }
}

async fn maintain_until(subject: Subject, is_done: Arc<AtomicBool>) {
    while !is_done.load(Ordering::Relaxed) {
        subject.run_maintenance().await;
    }
}

async fn existing(subject: &Subject) -> Vec<String> {
    let own = (1..=WORKERS).map(|worker| format!("own-{worker}"));
    let mut existing = Vec::new();
    for name in own.chain(CONTENDED.map(str::to_owned)) {
        if subject.get(&subject.id(&name)).await.is_some() {
            existing.push(name);
        }
    }
    existing
}

pub(in crate::conformance) async fn a_queue_created_and_deleted_concurrently_never_repeats_a_rank(subject: &Subject) {
    use sukkal_domain::Creation;
    use sukkal_storage::PostOutcome;

    let seed = seed();
    let queue = subject.id("q");
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (subject, queue) = (subject.clone(), queue.clone());
            let mut random = Random::new(seed, worker, 0);
            tokio::spawn(async move {
                let (mut created, mut posted) = (0, Vec::new());
                for _ in 0..STEPS {
                    match random.below(4) {
                        0 => {
                            let creation = subject.store().create_queue(&queue, &Metadata::default()).await;
                            created += usize::from(creation == Ok(Creation::Created));
                        }
                        1 => subject.delete(&queue).await,
                        _ => {
                            let Some(now) = subject.get(&queue).await else { continue };
                            let batch = messages(LONG_S, 3);
                            let post = subject.try_post(&queue, now.revision, &client(0), &batch).await;
                            if let Ok(PostOutcome::Posted(ids)) = post {
                                posted.extend(ids);
                            }
                        }
                    }
                }
                crate::conformance::support::subject::assert_ascending(&posted);
                (created, posted)
            })
        })
        .collect();
    let (mut created, mut posted) = (0, Vec::new());
    for worker in workers {
        let (creations, ids) = worker.await.expect("no worker fails");
        created += creations;
        posted.extend(ids);
    }

    posted.sort_unstable();
    let given = posted.len();
    posted.dedup_by_key(|id| id.rank());
    assert_eq!(posted.len(), given, "a rank was assigned twice");
    // The remaining messages were posted to the last incarnation of the queue, so their ranks
    // follow those of all deleted messages.
    let feed = subject.feed(&queue).await;
    assert!(posted.ends_with(&feed), "{feed:?}");
    assert!(created > 0);
}
