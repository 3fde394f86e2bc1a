//! The power is cut again and again under load, and any part of what was not synced is lost: what was acknowledged
//! is there once, what was acknowledged as deleted is not, and the store is whole.
//!
//! `SUKKAL_POWER_CUTS` is how often, `SUKKAL_SEED` repeats the choices of an earlier test (not its timing).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use sukkal::domain::{NewClaim, Term};
use sukkal::storage::embedded::{EmbeddedStore, Fsync};
use sukkal::storage::{ClaimStore, Deletion, GivenClaim, MessageStore, Posting, QueueStore};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::super::cuts::{self, ANSWERS_PER_CUT, PRODUCERS, WORKERS};
use super::disk::Disk;
use super::{assert_whole, metadata, post, queue, text, texts_in};
use crate::support::chronicle::choices::{self, Choices};

const CUTS: u64 = 40;
/// Longer than any claim here: by so much the clock goes on with each cut.
const STEP_S: i64 = 100;

/// What was promised about a message.
#[derive(Clone, Copy, Default)]
struct Promise {
    is_posted: bool,
    is_deleted: bool,
    may_be_deleted: bool,
}

#[derive(Default)]
struct Board {
    promises: Mutex<HashMap<String, Promise>>,
    answers: AtomicU64,
    answered: Notify,
}

impl Board {
    fn note(&self, names: &[String], change: impl Fn(&mut Promise)) {
        let mut promises = self.promises.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            change(promises.entry(name.clone()).or_default());
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

    /// Fails if a promise is broken by what is there.
    fn judge(&self, there: &[String]) {
        let unique: HashSet<&String> = there.iter().collect();
        assert_eq!(unique.len(), there.len(), "a message is there twice");
        let promises = self.promises.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, promise) in &*promises {
            let is_there = unique.contains(name);
            assert!(!(promise.is_deleted && is_there), "{name} was deleted and is there");
            assert!(is_there || !promise.is_posted || promise.may_be_deleted, "{name} was posted and is not there");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_power_cuts() {
    let seed = choices::seed();
    println!("power cuts of an embedded store: SUKKAL_SEED={seed}");
    let cuts = cuts::count(CUTS);
    let (disk, board) = (Disk::new(), Arc::new(Board::default()));
    let mut choices = Choices::of(seed, 3, 0);

    for cut in 0..=cuts {
        disk.power_on();
        let source = disk.clone();
        let store = EmbeddedStore::on_disk(move || source.connect(), Fsync::Group).unwrap();
        for name in ["work", "dead"] {
            store.set_clock(&queue(name), i64::try_from(cut).unwrap() * STEP_S * 1_000_000);
        }
        assert_whole(&store).await;
        board.judge(&[texts_in(&store, &queue("work")).await, texts_in(&store, &queue("dead")).await].concat());
        let keys = json!({ "_max_claim_count": 2, "_dead_letter_queue": "dead" });
        store.create_queue(&queue("work"), &metadata(keys)).await.unwrap();

        let mut actors = JoinSet::new();
        for number in 0..PRODUCERS {
            let choices = Choices::of(seed ^ cut, 1, number);
            actors.spawn(produce(store.clone(), board.clone(), format!("{cut}/{number}"), choices));
        }
        for number in 0..WORKERS {
            actors.spawn(work(store.clone(), board.clone(), Choices::of(seed ^ cut, 2, number)));
        }
        board.wait_for(board.answers.load(Ordering::SeqCst) + choices.within(1..=ANSWERS_PER_CUT)).await;
        disk.cut(&mut choices);
        actors.join_all().await;
    }
    let promises = board.promises.lock().unwrap_or_else(PoisonError::into_inner);
    let deleted = promises.values().filter(|promise| promise.is_deleted).count();
    println!("{} messages, {deleted} of them deleted, {cuts} cuts", promises.len());
    assert!(deleted > 0, "nothing was deleted");
}

#[tokio::test]
async fn a_cut_loses_the_end_of_what_was_not_to_be_synced_and_nothing_else() {
    let mut choices = Choices::of(choices::seed(), 4, 0);
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    for is_cut in [true, false] {
        let disk = Disk::new();
        let open = |fsync| {
            let source = disk.clone();
            EmbeddedStore::on_disk(move || source.connect(), fsync).unwrap()
        };
        let store = open(Fsync::Group);
        store.create_queue(&queue("work"), &metadata(json!({}))).await.unwrap();
        drop(store);
        let store = open(Fsync::Off);
        let seen = store.get_queue(&queue("work")).await.unwrap().unwrap().revision;
        for name in &names {
            post(&store, &queue("work"), seen, std::slice::from_ref(name)).await.unwrap();
        }
        if is_cut {
            disk.cut(&mut choices);
            disk.power_on();
        }
        drop(store);

        let store = open(Fsync::Group);
        let there = texts_in(&store, &queue("work")).await;
        assert_eq!(there, names[..there.len()]);
        assert_eq!(there.len() < names.len(), is_cut, "{} of {} are there", there.len(), names.len());
        assert_whole(&store).await;
    }
}

/// Posts until the store fails.
async fn produce(store: EmbeddedStore, board: Arc<Board>, name: String, mut choices: Choices) {
    let work = queue("work");
    let Ok(Some(seen)) = store.get_queue(&work).await else {
        return;
    };
    for number in 0.. {
        let names: Vec<String> = (0..choices.within(1..=4)).map(|part| format!("{name}/{number}/{part}")).collect();
        board.note(&names, |_| {});
        match post(&store, &work, seen.revision, &names).await {
            Ok(Posting::Posted(_)) => board.note(&names, |promise| promise.is_posted = true),
            Ok(other) => panic!("{other:?}"),
            Err(_) => return,
        }
        board.count_answer();
    }
}

/// Claims and deletes, some of it in vain, until the store fails.
async fn work(store: EmbeddedStore, board: Arc<Board>, mut choices: Choices) {
    let work = queue("work");
    let new = NewClaim { limit: 4, term: Term { ttl_s: 60, grace_s: 60 }, prefer: Vec::new() };
    loop {
        let claim = match store.create_claim(&work, &new).await {
            Ok(Some(claim)) => claim,
            Ok(None) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            Err(_) => return,
        };
        for message in &claim.messages {
            let name = [text(message)];
            if choices.one_in(3) {
                continue;
            }
            board.note(&name, |promise| promise.may_be_deleted = true);
            match store.delete_message(&work, message.id, Some(GivenClaim::Id(claim.id))).await {
                Ok(Deletion::Done) => board.note(&name, |promise| promise.is_deleted = true),
                Ok(other) => panic!("{other:?}"),
                Err(_) => return,
            }
            board.count_answer();
        }
        if choices.one_in(2) && store.release_claim(&work, claim.id).await.is_err() {
            return;
        }
    }
}
