//! What a request costs the store in commands.

use super::*;
use crate::support::redis::poll_until;

const POSTS: usize = 10;
const MESSAGES: &str = "/v2/queues/q/messages";

/// How often Redis was asked for something by this name. What scripts call inside counts too, so only
/// names that no script uses say how often the service asked.
fn calls(redis: &RedisServer, command: &str) -> usize {
    let stats = redis.command(&["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.as_text().lines().find_map(|line| line.strip_prefix(&prefix));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// A service over a Redis server of its own, both at rest, with all calls counted from now on.
fn at_rest() -> (RedisServer, Sukkal) {
    let redis = RedisServer::start();
    let quiet = [("SUKKAL_JANITOR__PAUSE", "3600"), ("SUKKAL_LOG__FILTER", "debug")];
    let sukkal = Sukkal::start_with(&redis.url(), &quiet);
    poll_until("the janitor rests", || sukkal.log().iter().any(|line| line.contains("has gone round")));
    redis.command(&["CONFIG", "RESETSTAT"]);
    (redis, sukkal)
}

#[tokio::test]
async fn posting_to_a_known_queue_is_one_round_trip() {
    let (redis, sukkal) = at_rest();
    let api = sukkal.project("p");
    let post = || async {
        let body = json!({ "messages": [{ "body": 1 }, { "body": 2 }] });
        let response = api.post("/v2/queues/q/messages", &body).send().await.unwrap();
        assert_eq!(response.status(), 201);
    };
    post().await;
    let has_said = |what: &str| sukkal.log().iter().any(|line| line.contains(what));
    poll_until("the janitor rests", || has_said("has gone round"));
    poll_until("the registration is confirmed", || has_said("confirmed the registration"));
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

/// Names in the register that have no queue are examined too, and are made faster than queues.
#[tokio::test]
async fn a_list_examines_at_most_10_000_names_in_steps_of_100_and_its_link_continues_behind_them() {
    let (redis, sukkal) = at_rest();
    let api = sukkal.project("p");
    assert_eq!(api.put("/v2/queues/zzz").send().await.unwrap().status(), 201);
    let names: Vec<String> = (0..10_050).map(|number| format!("a{number:05}\x001")).collect();
    for some in names.chunks(1_000) {
        let scored = some.iter().flat_map(|name| ["0", name]);
        redis.command(&["ZADD", "sukkal:{p}:queues"].into_iter().chain(scored).collect::<Vec<_>>());
    }
    redis.command(&["CONFIG", "RESETSTAT"]);

    let first = answered(api.get("/v2/queues?name=zz&limit=3"), 200).await.json();

    assert_eq!((calls(&redis, "zrangebylex"), calls(&redis, "hmget")), (100, 0));
    let link = "/v2/queues?limit=3&name=zz&marker=a09999";
    assert_eq!(first, json!({"queues": [], "links": [{"rel": "next", "href": link}]}));
    let second = answered(api.get(link), 200).await.json();
    assert_eq!(pick(&second["queues"], "name"), ["zzz"]);
    assert_eq!(second["links"][0]["href"], "/v2/queues?marker=zzz&limit=3&name=zz");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_examines_its_own_messages_once() {
    let (redis, sukkal) = at_rest();
    let api = sukkal.project("p");
    let (own, one) = (json!({ "messages": vec![json!({ "body": 1 }); 1000] }), json!({ "messages": [{ "body": 1 }] }));
    for _ in 0..10 {
        assert_eq!(api.post(MESSAGES, &own).send().await.unwrap().status(), 201);
    }
    redis.command(&["CONFIG", "RESETSTAT"]);
    let waiting = tokio::spawn(send(api.get(&format!("{MESSAGES}?wait=30"))));
    // Each script examines some hundreds of messages.
    let mut before = 0;
    poll_until("the first query is over", || {
        let now = calls(&redis, "evalsha");
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::mem::replace(&mut before, now) == now && now >= 10
    });
    redis.command(&["CONFIG", "RESETSTAT"]);

    assert_eq!(api.post(MESSAGES, &one).send().await.unwrap().status(), 201);
    assert_eq!(api.client(OTHER_CLIENT).post(MESSAGES, &one).send().await.unwrap().status(), 201);

    assert_eq!(waiting.await.unwrap().json()["messages"].as_array().unwrap().len(), 1);
    // Two posts, a query after each of them, and where the queue stands.
    let scripts = calls(&redis, "evalsha");
    assert!(scripts < 10, "{scripts} scripts");
}
