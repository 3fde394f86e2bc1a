//! The power is cut repeatedly under load, and any part of the data that was not synced is lost.
//! Acknowledged messages are there once, messages with an acknowledged deletion are not, and the
//! store passes its integrity check.
//!
//! `SUKKAL_POWER_CUTS` sets how often. `SUKKAL_SEED` repeats the choices of an earlier test, but
//! not its timing.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use sukkal_domain::{ClaimId, Taken};
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::{ClaimStore, DeleteOutcome, MessageStore, PostOutcome, QueueStore};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::super::cuts::{self, ANSWERS_PER_CUT, PRODUCERS, WORKERS};
use super::disk::Disk;
use super::{assert_consistent, created, metadata, post, queue, text, texts_in};
use support::calls::new_claim;
use support::random::{self, Random};
use support::report;

const CUTS: usize = 40;
/// The time by which each cut advances the clock, in seconds: longer than any claim here.
const STEP_S: i64 = 100;

/// The guarantees that responses have given for a message.
#[derive(Clone, Copy, Default)]
struct Guarantees {
    is_posted: bool,
    is_deleted: bool,
    may_be_deleted: bool,
}

#[derive(Default)]
struct SharedState {
    guarantees: Mutex<HashMap<String, Guarantees>>,
    answers: AtomicU64,
    answered: Notify,
}

impl SharedState {
    fn note(&self, names: &[String], change: impl Fn(&mut Guarantees)) {
        let mut guarantees = self.guarantees.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            change(guarantees.entry(name.clone()).or_default());
        }
    }

    fn count_answer(&self) {
        self.answers.fetch_add(1, Ordering::SeqCst);
        self.answered.notify_one();
    }

    async fn wait_for(&self, answers: u64) {
        while self.answers.load(Ordering::SeqCst) < answers {
            self.answered.notified().await;
        }
    }

    /// Asserts that the messages that exist keep all guarantees.
    fn verify(&self, there: &[String]) {
        let unique: HashSet<&String> = there.iter().collect();
        assert_eq!(unique.len(), there.len(), "a message exists twice");
        let guarantees = self.guarantees.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, guarantee) in &*guarantees {
            let is_there = unique.contains(name);
            assert!(!(guarantee.is_deleted && is_there), "{name} was deleted and still exists");
            assert!(
                is_there || !guarantee.is_posted || guarantee.may_be_deleted,
                "{name} was posted and does not exist"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_messages_survive_power_cuts() {
    let seed = random::seed();
    let cuts = cuts::count(CUTS);
    let (disk, shared) = (Disk::new(), Arc::new(SharedState::default()));
    let mut random = Random::new(seed, 3, 0);

    for cut in 0..=cuts {
        disk.power_on();
        let store = disk.open(Fsync::Group);
        for name in ["work", "dead"] {
            store.set_clock(&queue(name), i64::try_from(cut).unwrap() * STEP_S * 1_000_000);
        }
        assert_consistent(&store).await;
        shared.verify(&[texts_in(&store, &queue("work")).await, texts_in(&store, &queue("dead")).await].concat());
        let keys = json!({ "_max_claim_count": 2, "_dead_letter_queue": "dead" });
        store.create_queue(&queue("work"), &metadata(keys)).await.unwrap();

        let mut actors = JoinSet::new();
        for number in 0..PRODUCERS {
            let random = Random::new(seed ^ cut as u64, 1, number);
            actors.spawn(produce(store.clone(), shared.clone(), format!("{cut}/{number}"), random));
        }
        for number in 0..WORKERS {
            actors.spawn(work(store.clone(), shared.clone(), Random::new(seed ^ cut as u64, 2, number)));
        }
        shared.wait_for(shared.answers.load(Ordering::SeqCst) + random.within(1..=ANSWERS_PER_CUT)).await;
        disk.cut(&mut random);
        actors.join_all().await;
    }
    let guarantees = shared.guarantees.lock().unwrap_or_else(PoisonError::into_inner);
    let deleted = guarantees.values().filter(|guarantee| guarantee.is_deleted).count();
    assert!(deleted > 0, "nothing was deleted");
    let details = format!("{} messages, {deleted} of them deleted, seed {seed}", guarantees.len());
    report::checked("embedded_power_cut", "embedded", cuts, details);
}

#[tokio::test]
async fn without_syncs_a_power_cut_loses_only_the_latest_changes() {
    let mut random = Random::new(random::seed(), 4, 0);
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for is_cut in [true, false] {
        let disk = Disk::new();
        let (work, revision) = created(&disk.open(Fsync::Group)).await;
        let store = disk.open(Fsync::Off);
        for name in &names {
            post(&store, &work, revision, std::slice::from_ref(name)).await.unwrap();
        }
        if is_cut {
            disk.cut(&mut random);
            disk.power_on();
        }
        drop(store);

        let store = disk.open(Fsync::Group);
        let there = texts_in(&store, &work).await;
        assert_eq!(there, names[..there.len()]);
        assert_eq!(there.len() < names.len(), is_cut, "{} of {} exist", there.len(), names.len());
        assert_consistent(&store).await;
    }
}

/// Posts until the store fails.
async fn produce(store: EmbeddedStore, shared: Arc<SharedState>, name: String, mut random: Random) {
    let work = queue("work");
    let Ok(Some(current)) = store.get_queue(&work).await else {
        return;
    };
    for number in 0.. {
        let names: Vec<String> = (0..random.within(1..=4)).map(|part| format!("{name}/{number}/{part}")).collect();
        shared.note(&names, |_| {});
        match post(&store, &work, current.revision, &names).await {
            Ok(PostOutcome::Posted(_)) => shared.note(&names, |guarantee| guarantee.is_posted = true),
            Ok(other) => panic!("{other:?}"),
            Err(_) => return,
        }
        shared.count_answer();
    }
}

/// Claims and deletes messages, and releases some claims, until the store fails.
async fn work(store: EmbeddedStore, shared: Arc<SharedState>, mut random: Random) {
    let work = queue("work");
    let new = new_claim(4, 60);
    loop {
        let claim = match store.create_claim(&work, ClaimId::random(), &new).await {
            Ok(Taken::Messages(claim)) => claim,
            Ok(Taken::Nothing | Taken::Paused) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            Err(_) => return,
        };
        for message in &claim.messages {
            let name = [text(message)];
            if random.one_in(3) {
                continue;
            }
            shared.note(&name, |guarantee| guarantee.may_be_deleted = true);
            match store.delete_message(&work, message.id, Some(claim.id)).await {
                Ok(DeleteOutcome::Done) => shared.note(&name, |guarantee| guarantee.is_deleted = true),
                Ok(other) => panic!("{other:?}"),
                Err(_) => return,
            }
            shared.count_answer();
        }
        if random.one_in(2) && store.release_claim(&work, claim.id).await.is_err() {
            return;
        }
    }
}
