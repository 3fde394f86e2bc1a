//! What a request costs the store in round trips.

use super::*;
use crate::support::redis::poll_until;

const POSTS: usize = 10;

/// How often Redis was asked for something by this name. What scripts call inside counts too, so only
/// names that no script uses say how often the service asked.
fn calls(redis: &RedisServer, command: &str) -> usize {
    let stats = redis.command(&["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.as_text().lines().find_map(|line| line.strip_prefix(&prefix));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

#[tokio::test]
async fn posting_to_a_known_queue_is_one_round_trip() {
    let redis = RedisServer::start();
    let quiet = [("SUKKAL_JANITOR__PAUSE", "3600"), ("SUKKAL_LOG__FILTER", "debug")];
    let sukkal = Sukkal::start_with(&redis.url(), &quiet);
    let api = sukkal.project("p");
    let post = || async {
        let body = json!({ "messages": [{ "body": 1 }, { "body": 2 }] });
        let response = api.post("/v2/queues/q/messages", &body).send().await.unwrap();
        assert_eq!(response.status(), 201);
    };
    post().await;
    poll_until("the janitor rests", || sukkal.log().iter().any(|line| line.contains("has gone round")));
    redis.command(&["CONFIG", "RESETSTAT"]);

    for _ in 0..POSTS {
        post().await;
    }

    assert_eq!(calls(&redis, "evalsha"), POSTS);
    // The script's own.
    assert_eq!(calls(&redis, "hmget"), POSTS);
    for other in ["eval", "zrangebylex", "script|load", "ping"] {
        assert_eq!(calls(&redis, other), 0, "{other}");
    }
}
