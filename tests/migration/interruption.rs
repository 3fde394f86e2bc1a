//! A migration that was interrupted can be repeated. Until it is complete, no process can use the
//! target.

use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::view::{assert_equal, view_of};
use super::workload::{self, post};
use super::{OPTIONS, assert_intact, command, embedded, migrate, run, serve_embedded};
use support::random::{Random, seed};
use support::redis::{RedisServer, Reply, spawn};
use support::sukkal::Sukkal;
use support::waiting::block_until;

const PROJECT: &str = "p";
const POSTED: usize = 20_000;
const POSTED_PER_REQUEST: usize = 1_000;
const LARGE: usize = 20;
const LARGE_BODY_BYTES: usize = 250_000;
const INTERRUPTIONS: usize = 4;

/// Returns the folder of a filled store.
async fn filled(random: &mut Random) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut sukkal = Sukkal::start_with(&embedded(folder.path()), &OPTIONS);
    let api = sukkal.project(PROJECT);
    workload::fill(&api, random).await;
    for first in (0..POSTED).step_by(POSTED_PER_REQUEST) {
        let messages: Vec<Value> = (first..first + POSTED_PER_REQUEST).map(|body| json!({ "body": body })).collect();
        post(&api, "long", &messages.into()).await;
    }
    for _ in 0..LARGE {
        post(&api, "large", &json!([{ "body": "x".repeat(LARGE_BODY_BYTES) }])).await;
    }
    sukkal.terminate();
    assert!(sukkal.wait().success());
    folder
}

/// Returns the number of messages of the longest queue that were copied.
fn copied(redis: &RedisServer) -> i64 {
    redis.command(&["HLEN", "sukkal:{p/long}:messages"]).as_int()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_migration_can_be_repeated_and_leaves_nothing_behind() {
    let mut random = Random::new(seed(), 2, 0);
    let folder = filled(&mut random).await;
    let (from, redis) = (embedded(folder.path()), RedisServer::start());
    let mut interrupted = 0;
    tokio::task::block_in_place(|| {
        for _ in 0..INTERRUPTIONS {
            let mut migration = command(&["migrate", "--from", &from, "--to", &redis.url()]);
            migration.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut migration = spawn(migration).unwrap();
            let messages = i64::try_from(random.below(POSTED)).unwrap();
            block_until("it is in the middle", || copied(&redis) > messages || migration.try_wait().unwrap().is_some());
            migration.kill().unwrap();
            interrupted += u32::from(!migration.wait().unwrap().success());
            // Stands for data that the source does not have any more.
            redis.command(&["HSET", "sukkal:{p/gone}:queue", "v", "1", "s", "1"]);
            let (code, text) = run(&["serve", "--bind", "127.0.0.1:0", "--store", &redis.url()]);
            assert!(code == Some(2) && text.contains("a migration to this Redis is not complete"), "{text}");
        }
        migrate(&from, &redis.url());
    });
    assert!(interrupted > 0, "each migration was complete before it was killed");

    assert_eq!(redis.command(&["EXISTS", "sukkal:{p/gone}:queue"]), Reply::Int(0));
    assert_intact(&redis.url());
    let (_store, server) = serve_embedded(folder.path());
    let sukkal = Sukkal::start_with(&redis.url(), &OPTIONS);
    assert_equal(&server.project(PROJECT), &sukkal.project(PROJECT), view_of).await;
}
