//! Operations of several commands, between which a queue moves.

use futures::future::join;
use serde_json::{Value, json};
use sukkal_domain::{Creation, Metadata, Redrive, Selection, SubscriptionId, TaskId};
use sukkal_storage::pooled::PooledStore;
use sukkal_storage::{DeliveryStore, Listing, MessageStore, Moved, QueueStore, SealedBodies, TaskStore};
use tokio::time::{Duration, timeout};

use super::waiting::Scene;
use super::{Management, PROJECT, move_queue, mover, queue_id, redirect};
use crate::faults::gate::Gate;
use crate::pools::{answered, post, until};
use crate::push::LOCAL;
use crate::push::endpoint::{Answer, Endpoint};
use support::redis::Reply;

/// How long an operation gets to reach the point where it waits for a move.
const WAITING: Duration = Duration::from_millis(100);

/// Returns the store of another process, which reaches the pools through these gates.
async fn other_process(scene: &Scene) -> (PooledStore, [Gate; 2]) {
    let Management::Redis(management) = &scene.deployment.management else { unreachable!() };
    let store = mover(&management.url()).await;
    let gates = [0, 1].map(|pool| Gate::start(scene.deployment.pools[pool].port(), PROJECT));
    redirect(&store, &gates.each_ref().map(Gate::url));
    (store, gates)
}

/// A request to create a queue reports that the queue exists, at each step of a move.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_moves_is_not_created_again() {
    /// Maximum number of commands that a move sends to the pool to which the queue moves.
    const COMMANDS_MAX: usize = 32;
    let scene = Scene::start().await;
    let (creator, gates) = other_process(&scene).await;
    let gate = &gates[1];
    let server = scene.deployment.serve();
    // Number of moves that went on between two commands of a creation.
    let mut raced = 0;

    for commands in 0..COMMANDS_MAX {
        let queue = format!("q{commands}");
        post(&server.project(PROJECT), &queue, "old").await;
        scene.gates[2].hold_after(commands);
        let (store, name) = (scene.mover.clone(), queue.clone());
        let moving = tokio::spawn(async move { move_queue(&store, &name, "b").await });
        until("the move is held or done", async || scene.gates[2].has_happened() || moving.is_finished()).await;
        if moving.is_finished() {
            assert!(commands > 8, "the move is done after {commands} commands");
            assert!(raced > 0, "no creation was held between its commands");
            return;
        }
        // The creator sees whether the queue is there, and the move continues before its next
        // command.
        gate.hold_after(1);
        let (store, id) = (creator.clone(), queue_id(PROJECT, &queue));
        let creating = tokio::spawn(async move { store.create_queue(&id, &Metadata::default()).await });
        let held = until("the creation is held", async || gate.has_happened() || creating.is_finished());
        let _waits_for_the_move = timeout(WAITING, held).await;
        raced += usize::from(gate.has_happened());
        scene.gates[2].release();
        assert_eq!(moving.await.unwrap(), Ok(Moved::Done), "{queue}");
        gate.release();

        assert_eq!(creating.await.unwrap(), Ok(Creation::Existed), "after {commands} commands of the move");
    }
    panic!("the move needs more than {COMMANDS_MAX} commands");
}

/// An ordered subscription whose retries are not found would go on with the next message.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_is_found_although_its_queue_moves_before_its_record_is_read() {
    let endpoint = Endpoint::answering(|_| Answer::Status(500));
    let scene = Scene::start().await;
    let server = scene.deployment.serve_with(&LOCAL);
    let api = server.project(PROJECT);
    let options = json!({"_retry_policy": {"minimum_delay": 1000, "maximum_delay": 2000}});
    answered(api.put("/v2/queues/q"), 201).await;
    let subscriber = json!({"subscriber": endpoint.url("/"), "options": options});
    let created: Value = answered(api.post("/v2/queues/q/subscriptions", &subscriber), 201).await;
    let id = SubscriptionId::parse(created["subscription_id"].as_str().unwrap()).unwrap();
    post(&api, "q", "m").await;
    let (reader, gates) = other_process(&scene).await;
    let gate = &gates[0];
    let queue = queue_id(PROJECT, "q");
    let retries = async || reader.list_retries(&queue, id, None, 10).await.unwrap().len();
    until("the first attempt has failed", async || retries().await == 1).await;

    gate.hold_after(1);
    let moved = async {
        until("the retry is listed", async || gate.has_happened()).await;
        assert_eq!(move_queue(&scene.mover, "q", "b").await, Ok(Moved::Done));
        gate.release();
    };

    assert_eq!(tokio::join!(retries(), moved).0, 1);
}

/// Reads the queue "q" of the first pool. After this number of commands, a move pauses the queue.
/// One command later, the move is undone. It renames the keys of the queue, as here.
async fn read_during_an_undone_move<T>(
    scene: &Scene,
    gate: &Gate,
    commands: usize,
    read: impl Future<Output = T>,
) -> T {
    let pool = &scene.deployment.pools[0];
    let rename = |from: &str, to: &str| {
        let keys = pool.command(&["KEYS", &format!("{from}:{{{PROJECT}/q}}:*")]);
        assert!(!keys.items().is_empty(), "the queue has keys");
        for key in keys.items().iter().map(Reply::as_text) {
            pool.command(&["RENAME", key, &key.replacen(from, to, 1)]);
        }
    };
    gate.hold_after(commands);
    let undone = async {
        until("the read is held", async || gate.has_happened()).await;
        rename("sukkal", "moving");
        gate.hold_after(0);
        until("one more command is done", async || gate.has_happened()).await;
        rename("moving", "sukkal");
        gate.release();
    };
    join(read, undone).await.0
}

/// An observer would never see the messages of this page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_listed_although_a_move_is_undone_before_they_are_read() {
    let scene = Scene::start().await;
    let server = scene.deployment.serve();
    post(&server.project(PROJECT), "q", "m").await;
    let (reader, gates) = other_process(&scene).await;
    let (queue, listing) = (queue_id(PROJECT, "q"), Listing::first(10));
    let listed = async || reader.list_messages(&queue, &listing).await.unwrap().messages.len();
    assert_eq!(listed().await, 1);

    assert_eq!(read_during_an_undone_move(&scene, &gates[0], 1, listed()).await, 1);
}

/// A message that a change of keys does not find cannot be decrypted once the old key is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn encrypted_messages_are_found_although_a_move_is_undone_before_they_are_read() {
    let scene = Scene::start().await;
    let server = scene.deployment.serve_with(&[("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "k")]);
    let api = server.project(PROJECT);
    answered(api.put("/v2/queues/q").json(&json!({"_enable_encrypt_messages": true})), 201).await;
    post(&api, "q", "m").await;
    let (reader, gates) = other_process(&scene).await;
    let queue = queue_id(PROJECT, "q");
    let found = async || reader.list_sealed(&queue, None).await.unwrap().bodies.len();
    assert_eq!(found().await, 1);

    assert_eq!(read_during_an_undone_move(&scene, &gates[0], 1, found()).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_are_found_although_a_move_is_undone_after_they_were_read() {
    let scene = Scene::start().await;
    let server = scene.deployment.serve();
    post(&server.project(PROJECT), "q", "m").await;
    let (reader, gates) = other_process(&scene).await;
    let (queue, id) = (queue_id(PROJECT, "q"), TaskId::random());
    let redrive = Redrive { to: None, selection: Selection::All, per_second: None };
    reader.create_redrive(&queue, id, &redrive).await.unwrap();

    let list = reader.list_tasks(&queue);
    assert_eq!(read_during_an_undone_move(&scene, &gates[0], 0, list).await.unwrap().len(), 1);
    let get = reader.get_task(&queue, id);
    assert!(read_during_an_undone_move(&scene, &gates[0], 0, get).await.unwrap().is_some());
}
