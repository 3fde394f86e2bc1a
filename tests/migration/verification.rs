//! What happens to Redis during a migration: a copy that is not equal to its source is not used,
//! and a short outage does no harm.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use sukkal_storage::embedded::{EmbeddedStore, Fsync};
use sukkal_storage::migration::{
    Chunk, MigrationError, MigrationSource, MigrationTarget, migrate as migrate_store, verify_source,
};
use sukkal_storage::redis::import::RedisImport;
use sukkal_storage::redis::{Clock, RedisUri};
use sukkal_storage::{Check, Error};
use tempfile::TempDir;

use super::workload::post;
use super::{assert_intact, embedded, migrate};
use support::redis::{RedisServer, Reply};
use support::sukkal::Sukkal;

/// Longer than one command is attempted.
const OUTAGE: Duration = Duration::from_secs(3);

type Disturbance = Box<dyn FnOnce() + Send + Sync>;

/// A target that is disturbed before a step: before the first chunk is stored, before it is
/// compared, or before the mark is removed.
struct Disturbed {
    import: RedisImport,
    before_store: Option<Disturbance>,
    before_compare: Option<Disturbance>,
    before_complete: Option<Disturbance>,
}

/// The step before which a target is disturbed.
#[derive(Clone, Copy, Debug)]
enum Before {
    Store,
    Compare,
    Complete,
}

#[async_trait]
impl MigrationTarget for Disturbed {
    async fn is_complete(&self) -> Result<bool, Error> {
        self.import.is_complete().await
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.import.begin().await
    }

    async fn store(&mut self, chunk: Chunk) -> Result<(), Error> {
        if let Some(disturb) = self.before_store.take() {
            disturb();
        }
        self.import.store(chunk).await
    }

    async fn compare(&mut self, chunk: Chunk) -> Result<Option<String>, Error> {
        if let Some(disturb) = self.before_compare.take() {
            disturb();
        }
        self.import.compare(chunk).await
    }

    async fn verify(&self) -> Result<Check, Error> {
        self.import.verify().await
    }

    async fn complete(&mut self) -> Result<(), Error> {
        if let Some(disturb) = self.before_complete.take() {
            disturb();
        }
        self.import.complete().await
    }
}

/// Returns the folder of a store with a few messages.
async fn filled() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut sukkal = Sukkal::start(&embedded(folder.path()));
    post(&sukkal.project("p"), "q", &json!([{ "body": 1 }, { "body": 2 }, { "body": 3 }])).await;
    sukkal.kill();
    folder
}

async fn migrate_disturbed(
    folder: &TempDir,
    redis: &RedisServer,
    step: Before,
    disturb: Disturbance,
) -> Result<(), MigrationError> {
    let source = EmbeddedStore::open(folder.path(), Fsync::Off).unwrap();
    let verified = verify_source(&source).await?;
    let uri: RedisUri = redis.url().parse().unwrap();
    let import = RedisImport::open(&uri.with_clock(Clock::Movable), source.migration_id().await?).unwrap();
    let mut target = Disturbed { import, before_store: None, before_compare: None, before_complete: None };
    let before = match step {
        Before::Store => &mut target.before_store,
        Before::Compare => &mut target.before_compare,
        Before::Complete => &mut target.before_complete,
    };
    *before = Some(disturb);
    migrate_store(&source, &verified, &mut target, |_| ()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_differs_is_not_used_and_can_be_repeated() {
    let (folder, redis) = (filled().await, Arc::new(RedisServer::start()));
    for (changed, script) in [
        ("messages", "redis.call('HSET', KEYS[1], redis.call('HKEYS', KEYS[1])[2], 'another body')"),
        ("messages", "redis.call('HDEL', KEYS[1], redis.call('HKEYS', KEYS[1])[1])"),
        ("messages", "redis.call('HSET', KEYS[1], 'a key of 12', 'more than the embedded store has')"),
        ("ready", "redis.call('ZADD', KEYS[1], 17, redis.call('ZRANGE', KEYS[1], 0, 0)[1])"),
        ("ready", "redis.call('DEL', KEYS[1])"),
        ("queue", "redis.call('HSET', KEYS[1], 'z', '1')"),
    ] {
        let (server, key) = (redis.clone(), format!("sukkal:{{p/q}}:{changed}"));
        let changing = key.clone();
        let change = move || drop(server.command(&["EVAL", script, "1", &changing]));

        let result = migrate_disturbed(&folder, &redis, Before::Compare, Box::new(change)).await;

        let Err(MigrationError::Differs(difference)) = result else { panic!("{script}: {result:?}") };
        assert_eq!(difference, key, "{script}");
        assert!(redis.command(&["GET", "sukkal:layout"]).as_text().starts_with("migrating "));
    }
    // What the comparison of values cannot find is found by the check of the copy.
    let server = redis.clone();
    let change = move || drop(server.command(&["DEL", "sukkal:{p/q}:expirations"]));
    let result = migrate_disturbed(&folder, &redis, Before::Compare, Box::new(change)).await;
    assert!(matches!(&result, Err(MigrationError::Differs(finding)) if finding.contains("never ends")), "{result:?}");

    migrate(&embedded(folder.path()), &redis.url());
    assert_intact(&redis.url());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_migration_outlives_a_short_outage_of_redis() {
    let (folder, redis) = (filled().await, Arc::new(RedisServer::start()));
    let server = redis.clone();
    let suspend = move || {
        server.pause();
        thread::spawn(move || {
            thread::sleep(OUTAGE);
            server.resume();
        });
    };

    migrate_disturbed(&folder, &redis, Before::Store, Box::new(suspend)).await.unwrap();

    assert_intact(&redis.url());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_loses_its_data_never_has_an_incomplete_copy_that_can_be_used() {
    let (folder, redis) = (filled().await, Arc::new(RedisServer::start()));
    for step in [Before::Store, Before::Compare, Before::Complete] {
        let server = redis.clone();
        let lose = move || drop(server.command(&["FLUSHALL"]));
        let result = migrate_disturbed(&folder, &redis, step, Box::new(lose)).await;
        assert!(result.is_err(), "{step:?}");
        // The migration may have written its mark again, which keeps services from using the store.
        let left = redis.command(&["KEYS", "sukkal:*"]);
        if left != Reply::Array(Vec::new()) {
            assert_eq!(left, Reply::Array(vec![Reply::Bulk(Some(b"sukkal:layout".to_vec()))]), "{step:?}");
            assert!(redis.command(&["GET", "sukkal:layout"]).as_text().starts_with("migrating "), "{step:?}");
        }

        // Another process uses the empty store before the migration goes on.
        let server = redis.clone();
        let lose_and_use = move || {
            server.command(&["FLUSHALL"]);
            server.command(&["SET", "sukkal:layout", "3"]);
        };
        let result = migrate_disturbed(&folder, &redis, step, Box::new(lose_and_use)).await;
        assert!(result.is_err(), "{step:?}");
        assert_eq!(redis.command(&["KEYS", "sukkal:*"]).items().len(), 1, "{step:?}");
        assert_eq!(redis.command(&["GET", "sukkal:layout"]).as_text(), "3", "{step:?}");
        redis.command(&["FLUSHALL"]);
    }

    // After a restart, the connection of the migration is a new one.
    let server = redis.clone();
    let result = migrate_disturbed(&folder, &redis, Before::Store, Box::new(move || server.restart())).await;
    assert!(result.is_err());
    migrate(&embedded(folder.path()), &redis.url());
    assert_intact(&redis.url());
}
