//! A Redis that cannot be used because of a wrong setting. One log line, `/readyz` and `sukkal
//! check` give the reason, and the log says when the store works again.

use futures::future::join_all;
use serde_json::Value;
use tokio::process::Command;

use support::redis::{RedisServer, child_command};
use support::sukkal::Sukkal;
use support::waiting::until;

const PASSWORD: &str = "open-sesame";
const UNUSABLE: &str = "the store cannot be used";

fn lines(sukkal: &Sukkal, words: &str) -> Vec<String> {
    sukkal.log().into_iter().filter(|line| line.contains(words)).collect()
}

async fn readiness(sukkal: &Sukkal) -> (u16, String) {
    let answer = support::plain_http::get(sukkal.url("/readyz")).await.unwrap();
    let status = answer.status().as_u16();
    let document: Value = serde_json::from_str(&answer.text().await.unwrap()).unwrap_or_default();
    (status, document["description"].as_str().unwrap_or_default().to_owned())
}

/// Returns the output of `sukkal check` for a store that it cannot reach.
async fn check(store: &str) -> String {
    let mut command = Command::from(child_command(support::sukkal::binary()));
    let output = command.args(["check", "--store", store]).output().await.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[tokio::test]
async fn each_wrong_setting_is_named_once_in_the_log_by_readyz_and_by_check() {
    let open = RedisServer::start();
    let locked = RedisServer::start();
    let gone = RedisServer::start();
    gone.kill();
    let replica = RedisServer::start();
    replica.command(&["REPLICAOF", "127.0.0.1", &gone.port().to_string()]);
    locked.command(&["ACL", "SETUSER", "guest", "on", &format!(">{PASSWORD}"), "~*", "-@all", "+ping"]);
    locked.command(&["CONFIG", "SET", "requirepass", PASSWORD]);
    let (open, locked, gone, replica) = (open.port(), locked.port(), gone.port(), replica.port());

    let rows = [
        (format!("redis://127.0.0.1:{gone}"), "Connection refused"),
        (format!("redis://127.0.0.1:{locked}"), "NOAUTH"),
        (format!("redis://:{PASSWORD}-not@127.0.0.1:{locked}"), "WRONGPASS"),
        (format!("redis://guest:{PASSWORD}@127.0.0.1:{locked}"), "NOPERM"),
        (format!("redis://127.0.0.1:{replica}"), "READONLY"),
        (format!("redis://127.0.0.1:{open}/99"), "DB index is out of range"),
        (format!("rediss://127.0.0.1:{open}"), "if the server does not use TLS, use redis://"),
        (format!("redis-cluster://127.0.0.1:{open}"), "cluster support disabled"),
        (format!("redis-cluster://127.0.0.1:{gone}"), "Connection refused"),
        (format!("redis-sentinel://127.0.0.1:{open}/main"), "unknown command 'SENTINEL'"),
    ];
    join_all(rows.map(async |(store, reason)| {
        let sukkal = Sukkal::start(&store);
        until("the reason is logged", async || !lines(&sukkal, UNUSABLE).is_empty()).await;

        let ((status, description), checked) = tokio::join!(readiness(&sukkal), check(&store));
        assert_eq!(status, 503);
        assert!(description.contains(reason), "{store}: {description}");
        assert!(checked.contains(reason), "{store}");

        let logged = lines(&sukkal, "\"ERROR\"");
        assert!(logged.iter().any(|line| line.contains(UNUSABLE) && line.contains(reason)), "{store}: {logged:#?}");
        assert_eq!(lines(&sukkal, UNUSABLE).len(), 1, "{store}: {logged:#?}");
        assert_eq!(lines(&sukkal, "janitor"), [] as [&str; 0]);
        assert!(!sukkal.log().concat().contains(PASSWORD));
    }))
    .await;
}

#[tokio::test]
async fn a_recovered_redis_is_reported() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    until("it is connected", async || !lines(&sukkal, "connected to the store").is_empty()).await;

    redis.kill();
    until("the loss is logged", async || lines(&sukkal, UNUSABLE).len() == 1).await;
    redis.restart();
    until("the return is logged", async || lines(&sukkal, "the store can be used again").len() == 1).await;

    // Other connections may still be opened.
    until("it is ready", async || readiness(&sukkal).await.0 == 204).await;
}

#[tokio::test]
async fn a_user_that_is_added_later_works_without_a_restart() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&format!("redis://ali:{PASSWORD}@127.0.0.1:{}", redis.port()));
    until("the reason is logged", async || !lines(&sukkal, "WRONGPASS").is_empty()).await;

    redis.command(&["ACL", "SETUSER", "ali", "on", &format!(">{PASSWORD}"), "~*", "&*", "+@all"]);

    until("it can be used", async || !lines(&sukkal, "the store can be used again").is_empty()).await;
    assert_eq!(readiness(&sukkal).await.0, 204);
}
