//! Queues that move to other pools, while clients use them and processes are killed.

mod contents;
mod crashes;
mod races;
mod waiting;

use std::time::Duration;

use sukkal_domain::{Pool, ProjectId, QueueId};
use sukkal_storage::pooled::{self, PooledStore};
use sukkal_storage::redis::{Clock, RedisPools, TlsFiles};
use sukkal_storage::{Error, Maintenance, Moved, PoolStore, Schedule};

use super::{Deployment, Management, POOLS, PROJECT, until};
use support::redis::RedisServer;
use support::test_bed::open_movable;

/// Options of a store with a virtual pool.
pub(super) fn options() -> pooled::Options {
    let schedule = Schedule { pause: Duration::from_secs(86_400), walk: Duration::from_secs(86_400) };
    let (redis, wait_max) = (RedisPools::new(TlsFiles::default(), Clock::Movable), Duration::from_secs(10));
    pooled::Options { has_virtual_pool: true, schedule, redis, wait_max, cipher: None }
}

/// A process that moves queues of a deployment whose management store is at this URL. Its
/// maintenance does nothing by itself.
async fn mover(management: &str) -> PooledStore {
    let management = open_movable(management);
    let store = PooledStore::over_redis(&management, options()).unwrap();
    // On a busy machine, the store may not be connected yet.
    until("the pools are known", async || store.refresh_pools().await.is_ok()).await;
    store
}

/// Lets a process reach the pools at these URLs.
fn redirect(mover: &PooledStore, urls: &[String]) {
    let pool = |(name, url): (&&str, &String)| Pool {
        name: name.parse().unwrap(),
        uri: url.parse().unwrap(),
        weight: 1,
        flavor: None,
        options: serde_json::Map::new(),
        is_retired: false,
    };
    mover.set_pools(POOLS.iter().zip(urls).map(pool).collect());
}

async fn move_queue(mover: &PooledStore, queue: &str, pool: &str) -> Result<Moved, Error> {
    mover.move_queue(&queue_id(PROJECT, queue), &pool.parse().unwrap()).await
}

fn queue_id(project: &str, queue: &str) -> QueueId {
    QueueId::new(ProjectId::new(project).unwrap(), queue.parse().unwrap()).unwrap()
}

/// Returns the names of the keys that a store has for a queue, without those that are kept for a
/// while after a queue has left.
fn keys_of(redis: &RedisServer, project: &str, queue: &str) -> Vec<String> {
    let prefix = format!("sukkal:{{{project}/{queue}}}:");
    let found = redis.command(&["KEYS", &format!("{prefix}*")]);
    let names = found.items().iter().map(|key| key.as_text().strip_prefix(&prefix).unwrap().to_owned());
    names.filter(|name| name != "tombstone" && name != "clock" && !name.starts_with("answer:")).collect()
}

/// Visits all queues of all stores once.
async fn maintain(store: &PooledStore) {
    let mut reached = None;
    loop {
        reached = store.maintain_step(reached.as_ref()).await.unwrap();
        if reached.is_none() {
            return;
        }
    }
}
