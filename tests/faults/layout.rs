//! A Redis whose data has another layout than this release reads: it is refused and left unchanged.

use tokio::task::yield_now;

use super::process::refused;
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::{MOVABLE_CLOCK, Sukkal};
use support::waiting::block_until;

const LAYOUT: &str = "sukkal:layout";

/// Asserts that no command starts over this server, and that each gives the reason in its last
/// line.
fn assert_refused(redis: &RedisServer, layout: &str) {
    let url = redis.url();
    let serve = ["serve", "--bind", "127.0.0.1:0", "--store", &url];
    for arguments in [&serve[..], &["check", "--store", &url], &["check", "--repair", "--store", &url]] {
        let (code, said) = refused(arguments, &[]);

        assert_eq!(code, Some(2), "{said}");
        let last = said.lines().last().unwrap_or_default();
        assert!(last.contains(&format!("layout {layout:?}")) && last.contains("Use the release"), "{said}");
    }
    assert_eq!(redis.command(&["DBSIZE"]).as_int(), 1, "something was written");
}

#[test]
fn an_unknown_layout_is_refused() {
    let redis = RedisServer::start();
    redis.command(&["SET", LAYOUT, "99"]);

    assert_refused(&redis, "99");
}

#[test]
fn the_layout_without_a_version_is_refused() {
    let redis = RedisServer::start();
    redis.command(&["ZADD", "sukkal:projects", "0", "p"]);

    assert_refused(&redis, "1");
}

#[test]
fn a_process_exits_when_its_store_returns_with_another_layout() {
    let redis = RedisServer::start();
    let mut sukkal = Sukkal::launch(&["serve", "--bind", "127.0.0.1:0", "--store", &redis.url()], &[]);
    block_until("the store has a version", || redis.command(&["EXISTS", LAYOUT]).as_int() == 1);

    redis.command(&["SET", LAYOUT, "99"]);
    redis.command(&["CLIENT", "KILL", "TYPE", "normal"]);

    assert_eq!(sukkal.wait().code(), Some(2));
}

#[tokio::test]
async fn an_empty_cluster_gets_a_version_and_is_accepted_again() {
    let cluster = RedisCluster::start();
    for _ in 0..2 {
        let sukkal = Sukkal::start(&cluster.url());
        let created = sukkal.project("p").put("/v2/queues/q").send().await.unwrap();
        assert!(created.status().is_success());
        assert_eq!(cluster.node_of(LAYOUT).command(&["GET", LAYOUT]).as_text(), "4");
    }
}

/// For instance because it restarts without persistence.
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_loses_its_keys_while_a_process_starts_is_not_taken_for_an_old_one() {
    let redis = RedisServer::start();
    let url = redis.url();
    tokio::spawn(async move {
        loop {
            redis.command(&["FLUSHALL"]);
            yield_now().await;
        }
    });

    for _ in 0..5 {
        let sukkal = Sukkal::start(&url);
        let created = sukkal.project("p").put("/v2/queues/q").send().await.expect("the process is running");
        assert!(created.status().is_success());
    }
}

/// Its times are not those of Redis, so a process that would take them for real ones must not use
/// it.
#[test]
fn a_store_with_a_movable_clock_is_used_only_by_processes_with_one() {
    let redis = RedisServer::start();
    let mut sukkal = Sukkal::start_with(&redis.url(), &[MOVABLE_CLOCK]);
    block_until("the store has a version", || redis.command(&["EXISTS", LAYOUT]).as_int() == 1);
    sukkal.kill();
    let layout = redis.command(&["GET", LAYOUT]).as_text().to_owned();

    redis.command(&["FLUSHALL"]);
    redis.command(&["SET", LAYOUT, &layout]);
    assert_refused(&redis, &layout);
    redis.command(&["SET", LAYOUT, "3"]);
    let (code, said) = refused(&["check", "--store", &redis.url()], &[MOVABLE_CLOCK]);
    assert!(code == Some(2) && said.contains("layout \"3\""), "{said}");
}

#[test]
fn a_service_with_a_movable_clock_listens_on_loopback_addresses_only() {
    let everybody = ("SUKKAL_AUTH__STRATEGIES", "none");
    for listener in ["SUKKAL_BIND", "SUKKAL_OPERATIONS__BIND", "SUKKAL_WEBSOCKET__BIND"] {
        let others = ["SUKKAL_BIND", "SUKKAL_OPERATIONS__BIND"].map(|name| (name, "127.0.0.1:0"));
        let options = [&others[..], &[MOVABLE_CLOCK, everybody, (listener, "0.0.0.0:0")]].concat();

        let (code, said) = refused(&["serve", "--store", "memory:"], &options);

        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("is not a loopback address, and SUKKAL_MOVABLE_CLOCK is set"), "{said}");
    }
}
