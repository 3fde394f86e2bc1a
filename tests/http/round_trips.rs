//! The number of store commands that a request needs.

use futures::future::join_all;
use sukkal_domain::{ClaimId, ProjectId, QueueId};
use sukkal_storage::MessageStore;
use sukkal_storage::redis::RedisStore;

use super::*;
use support::waiting::block_until;

const POSTS: usize = 10;
/// Number of times that something is counted, of which the lowest counts.
const TRIALS: usize = 3;

/// Returns how often Redis has executed a command. Commands inside scripts count too, so only
/// commands that no script uses show how often the service sent them.
fn call_count(redis: &RedisServer, command: &str) -> usize {
    let stats = redis.command(&["INFO", "commandstats"]);
    let prefix = format!("cmdstat_{command}:calls=");
    let line = stats.as_text().lines().find_map(|line| line.strip_prefix(&prefix));
    line.map_or(0, |line| line.split(',').next().unwrap().parse().unwrap())
}

/// Returns how often Redis executes each of these commands during `operation`. If Redis does not
/// answer for half a second, the service repeats a script. So the operation runs three times, and
/// the lowest numbers count.
async fn lowest_call_counts<const N: usize>(
    redis: &RedisServer,
    commands: [&str; N],
    operation: impl AsyncFn(),
) -> [usize; N] {
    let mut lowest = [usize::MAX; N];
    for _ in 0..TRIALS {
        redis.command(&["CONFIG", "RESETSTAT"]);
        operation().await;
        for (lowest, command) in lowest.iter_mut().zip(commands) {
            *lowest = call_count(redis, command).min(*lowest);
        }
    }
    lowest
}

/// Starts a service with its own Redis server, waits until both are idle, and resets the command
/// counts.
fn idle_service() -> (RedisServer, Sukkal) {
    let redis = RedisServer::start();
    let quiet = [("SUKKAL_JANITOR__PAUSE", "3600"), ("SUKKAL_LOG__FILTER", "debug")];
    let sukkal = Sukkal::start_with(&redis.url(), &quiet);
    block_until("the janitor is idle", || sukkal.log().iter().any(|line| line.contains("has finished a round")));
    redis.command(&["CONFIG", "RESETSTAT"]);
    (redis, sukkal)
}

#[tokio::test]
async fn posting_to_a_known_queue_is_one_round_trip() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    let post = || async {
        let body = json!({ "messages": [{ "body": 1 }, { "body": 2 }] });
        let response = api.post("/v2/queues/q/messages", &body).send().await.unwrap();
        assert_eq!(response.status(), 201);
    };
    post().await;
    sukkal.logged("confirmed the registration").await;

    let commands = ["fcall", "hmget", "eval", "zrangebylex", "script|load", "ping"];
    let [counts @ .., pings] = lowest_call_counts(&redis, commands, async || {
        for _ in 0..POSTS {
            post().await;
        }
    })
    .await;

    // The script calls `HMGET` once.
    assert_eq!(counts, [POSTS, POSTS, 0, 0, 0]);
    assert!(pings < POSTS, "{pings} pings, not only now and then");
}

/// Each script reads the fields of the queue with one `HMGET`, and each fetch of records is
/// another.
#[tokio::test]
async fn a_claim_and_a_list_are_one_script_and_one_command() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    let body = json!({ "messages": vec![json!({ "body": 1 }); 2 * TRIALS * POSTS] });
    assert_eq!(api.post(MESSAGES, &body).send().await.unwrap().status(), 201);
    sukkal.logged("confirmed the registration").await;
    let claim_and_list = || async {
        answered(api.post("/v2/queues/q/claims?limit=1", &json!({})), 201).await;
        answered(api.get(&format!("{MESSAGES}?echo=true")), 200).await;
    };
    // The first calls load the scripts.
    claim_and_list().await;

    let commands = ["fcall", "hmget", "hget", "hincrby", "eval", "ping"];
    let [counts @ .., pings] = lowest_call_counts(&redis, commands, async || {
        for _ in 0..POSTS {
            claim_and_list().await;
        }
    })
    .await;

    assert_eq!(counts, [2 * POSTS, 4 * POSTS, 0, 0, 0]);
    assert!(pings < POSTS, "{pings} pings, not only now and then");
}

/// Scripts that complete at most 32 pops, and delete at most 32 messages unless it is one pop.
#[tokio::test]
async fn pops_of_a_queue_share_the_scripts_that_complete_them() {
    const OK: &str = "the store answers";
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    let store = RedisStore::open(&redis.url().parse().unwrap()).unwrap();
    let queue = QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap();
    let body = json!({ "messages": [{ "body": 1 }] });
    assert_eq!(api.post(MESSAGES, &body).send().await.unwrap().status(), 201);
    sukkal.logged("confirmed the registration").await;

    for (pops, messages_of_each, scripts_expected) in [(64, 1, 2), (6, 10, 2), (4, 20, 4), (2, 40, 2)] {
        let ids: Vec<ClaimId> = (0..pops).map(|_| ClaimId::random()).collect();
        let body = json!({ "messages": vec![json!({ "body": 1 }); messages_of_each] });
        let mut scripts = usize::MAX;
        for _ in 0..TRIALS {
            for id in &ids {
                assert_eq!(api.post(MESSAGES, &body).send().await.unwrap().status(), 201);
                store.pop_messages(&queue, *id, messages_of_each).await.expect(OK);
            }
            redis.command(&["CONFIG", "RESETSTAT"]);
            for completed in join_all(ids.iter().map(|id| store.complete_pop(&queue, *id))).await {
                completed.expect(OK);
            }
            scripts = call_count(&redis, "fcall").min(scripts);
        }
        assert_eq!(scripts, scripts_expected, "{pops} pops of {messages_of_each}");
    }
    let stats = store.get_stats(&queue, false).await.expect(OK);
    assert_eq!((stats.total, stats.claimed), (1, 0));
}

#[tokio::test]
async fn statistics_in_a_list_are_one_script_per_queue() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    for number in 0..20 {
        answered(api.put(&format!("/v2/queues/q{number}")), 201).await;
    }

    let counts = lowest_call_counts(&redis, ["zrangebylex", "fcall"], async || {
        let page = answered(api.get("/v2/queues?with_stats=true&name_prefix=q1"), 200).await.json();
        assert_eq!(page["queues"].as_array().unwrap().len(), 10);
    })
    .await;

    assert_eq!(counts, [1, 10]);
}

/// A list also examines registered names without a queue, which are faster to create than queues.
/// The link continues after the examined names.
#[tokio::test]
async fn a_queue_list_examines_at_most_10_000_names_in_steps_of_100() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    assert_eq!(api.put("/v2/queues/zzz").send().await.unwrap().status(), 201);
    let names: Vec<String> = (0..10_050).map(|number| format!("a{number:05}\x001")).collect();
    for some in names.chunks(1_000) {
        let scored = some.iter().flat_map(|name| ["0", name]);
        redis.command(&["ZADD", "sukkal:{p}:queues"].into_iter().chain(scored).collect::<Vec<_>>());
    }
    let link = "/v2/queues?limit=3&name=zz&marker=a09999";

    let counts = lowest_call_counts(&redis, ["zrangebylex", "hmget"], async || {
        let first = answered(api.get("/v2/queues?name=zz&limit=3"), 200).await.json();
        assert_eq!(first, json!({"queues": [], "links": [{"rel": "next", "href": link}]}));
    })
    .await;

    assert_eq!(counts, [100, 0]);
    let second = answered(api.get(link), 200).await.json();
    assert_eq!(pick(&second["queues"], "name"), ["zzz"]);
    assert_eq!(second["links"][0]["href"], "/v2/queues?marker=zzz&limit=3&name=zz");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_examines_its_own_messages_once() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    let (own, one) = (json!({ "messages": vec![json!({ "body": 1 }); 1000] }), json!({ "messages": [{ "body": 1 }] }));
    for _ in 0..10 {
        assert_eq!(api.post(MESSAGES, &own).send().await.unwrap().status(), 201);
    }
    redis.command(&["CONFIG", "RESETSTAT"]);
    let waiting = tokio::spawn(send(api.get(&format!("{MESSAGES}?wait=30"))));
    // Each script examines a few hundred messages.
    let mut before = 0;
    block_until("the first query has finished", || {
        let now = call_count(&redis, "fcall");
        std::thread::sleep(std::time::Duration::from_secs(1));
        std::mem::replace(&mut before, now) == now && now >= 10
    });
    redis.command(&["CONFIG", "RESETSTAT"]);

    assert_eq!(api.post(MESSAGES, &one).send().await.unwrap().status(), 201);
    assert_eq!(api.client(OTHER_CLIENT).post(MESSAGES, &one).send().await.unwrap().status(), 201);

    assert_eq!(waiting.await.unwrap().json()["messages"].as_array().unwrap().len(), 1);
    // There are two posts, a query after each post, and a script that reads the end of the queue.
    let scripts = call_count(&redis, "fcall");
    assert!(scripts < 10, "{scripts} scripts");
}

/// If Redis does not answer for half a second, the service repeats a script. So each operation is
/// counted in three queues, and the lowest number counts.
#[tokio::test]
async fn operations_on_claims_and_pauses_take_one_script_each() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    let mut least = [usize::MAX; 7];
    for queue in ["/v2/queues/q1", "/v2/queues/q2", "/v2/queues/q3"] {
        let confirmations = || sukkal.log().iter().filter(|line| line.contains("confirmed the registration")).count();
        let before = confirmations();
        let [messages, claims] = ["messages", "claims"].map(|part| format!("{queue}/{part}"));
        answered(api.post(&messages, &json!({ "messages": [{ "body": 1 }] })), 201).await;
        let claimed = answered(api.post(&claims, &json!({})), 201).await;
        let path = claimed.header("location").unwrap();
        block_until("the registration is confirmed", || confirmations() > before);

        for (least, (request, status)) in least.iter_mut().zip([
            (api.get(&claims), 200),
            (api.request(Method::PATCH, path).json(&json!({})), 204),
            (api.request(Method::POST, &format!("{queue}/pause")), 204),
            (api.post(&claims, &json!({})), 204),
            (api.delete(&format!("{messages}?pop=1")), 200),
            (api.request(Method::POST, &format!("{queue}/resume")), 204),
            (api.delete(path), 204),
        ]) {
            redis.command(&["CONFIG", "RESETSTAT"]);
            answered(request, status).await;
            *least = call_count(&redis, "fcall").min(*least);
        }
    }
    assert_eq!(least, [1; 7]);
}

/// Two messages become available while a request waits: one at once, and one after a delay.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_of_a_paused_queue_claims_once_per_message() {
    let (redis, sukkal) = idle_service();
    let api = sukkal.project("p");
    answered(api.put("/v2/queues/q").json(&json!({ "_default_message_delay": 1 })), 201).await;
    answered(api.request(Method::POST, "/v2/queues/q/pause"), 204).await;
    redis.command(&["CONFIG", "RESETSTAT"]);
    let waiting = tokio::spawn(send(api.post("/v2/queues/q/claims?wait=30", &json!({}))));
    // The claim, and a script that reads when something is due.
    block_until("the request waits", || call_count(&redis, "fcall") >= 2);

    let messages = json!({ "messages": [{ "body": 1, "delay": 0 }, { "body": 2, "delay": 1 }] });
    answered(api.post(MESSAGES, &messages), 201).await;
    let ready = "sukkal:{p/q}:ready";
    block_until("both messages are available", || redis.command(&["ZCARD", ready]).as_int() == 2);

    let scripts = call_count(&redis, "fcall");
    assert!(scripts < 15, "{scripts} scripts");
    answered(api.request(Method::POST, "/v2/queues/q/resume"), 204).await;
    assert_eq!(waiting.await.unwrap().json()["messages"].as_array().unwrap().len(), 2);
}
