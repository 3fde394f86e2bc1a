//! Registrations that change while another process confirms or removes them, with that process
//! stopped in the middle.

use std::time::Duration;

use sukkal_domain::{Metadata, QueueId};
use sukkal_storage::redis::RedisStore;
use sukkal_storage::{Listing, Maintenance, MessageStore, QueueStore};
use tokio::time::{sleep, timeout};

use super::gate::Gate;
use super::process::refused;
use super::stored::Stored;
use support::redis::{RedisServer, Reply};
use support::test_bed::queue_id;

const PROJECT: &str = "registered";
const REGISTER: &str = "sukkal:{registered}:queues";

fn open(url: &str) -> RedisStore {
    RedisStore::open(&url.parse().unwrap()).unwrap()
}

fn queue() -> QueueId {
    queue_id(PROJECT, "q")
}

async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let so = async {
        while !is_so() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(Duration::from_secs(30), so).await.is_ok(), "not in time: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confirmation_does_not_outlive_a_queue_that_is_deleted_meanwhile() {
    let redis = RedisServer::start();
    let (gate, other) = (Gate::start(redis.port(), PROJECT), open(&redis.url()));
    let store = open(&gate.url());
    other.create_queue(&queue(), &Metadata::default()).await.unwrap();
    store.get_queue(&queue()).await.unwrap();

    // The list, and the version that the confirmation reads.
    let listing = Listing::first(1);
    store.list_messages(&queue(), &listing).await.unwrap();
    gate.hold_after(1);
    wait_until("the confirmation is held", || gate.has_happened()).await;
    other.delete_queue(&queue()).await.unwrap();
    let monitor = redis.command(&["CONFIG", "RESETSTAT"]);
    assert_eq!(monitor, Reply::Status("OK".to_owned()));
    gate.release();

    // The confirmation registers the queue and the project, reads the version again, and removes
    // its registrations.
    wait_until("the registration is removed", || {
        let stats = redis.command(&["INFO", "commandstats"]);
        stats.as_text().contains("cmdstat_zadd") && stats.as_text().contains("cmdstat_zrem")
    })
    .await;
    assert_eq!(redis.command(&["EXISTS", REGISTER]).as_int(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_project_whose_next_queue_is_created_meanwhile_is_not_removed() {
    let redis = RedisServer::start();
    let (gate, other) = (Gate::start(redis.port(), PROJECT), open(&redis.url()));
    let walker = open(&gate.url());
    other.create_queue(&queue(), &Metadata::default()).await.unwrap();
    other.delete_queue(&queue()).await.unwrap();
    walker.ping().await.unwrap();

    // The maintenance round has read that the project has no queue, and is about to remove it.
    gate.hold_after(1);
    let walk = tokio::spawn(async move { walker.maintain_step(None).await });
    wait_until("the removal is held", || gate.has_happened()).await;
    other.create_queue(&queue(), &Metadata::default()).await.unwrap();
    gate.release();

    // On a busy machine it may have timed out.
    let _outcome = walk.await.unwrap();
    assert_eq!(other.maintain_step(None).await, Ok(Some(queue())), "the queue is not found");
}

#[tokio::test]
async fn the_check_command_mends_a_lost_registration() {
    let redis = RedisServer::start();
    let store = open(&redis.url());
    store.create_queue(&queue(), &Metadata::default()).await.unwrap();
    redis.command(&["DEL", REGISTER, "sukkal:{projects}"]);
    let code = |arguments: &[&str]| refused(&[&["check", "--store", &redis.url()], arguments].concat(), &[]).0;

    assert_eq!(code(&[]), Some(1));
    assert_eq!(code(&["--repair"]), Some(0));

    assert!(Stored { redis: &redis, project: PROJECT }.registered().contains("q"));
    assert_eq!(code(&[]), Some(0));
}
