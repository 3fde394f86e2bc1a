//! What `/metrics` says about the store, the process, and the queues that the operator has listed.

#![allow(
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "metrics are floats, and these are small whole numbers"
)]

use std::io::Write;
use std::process::Stdio;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use sukkal::descriptors::connections_max;
use sukkal_domain::{ProjectId, QueueId};

use super::{Answer, answered, send};
use support::events::Events;
use support::exposition::Exposition;
use support::redis::{RedisServer, child_command, spawn};
use support::sukkal::{Api, MOVABLE_CLOCK, Sukkal};
use support::test_bed::{open_movable, set_clock};
use support::waiting::until;

const QUEUES: &str = "SUKKAL_METRICS__QUEUES";
/// Longer than figures of queues are cached.
const FIGURES_TIMEOUT: Duration = Duration::from_secs(60);
const TWO_HOURS_US: i64 = 7_200_000_000;

async fn metrics(sukkal: &Sukkal) -> Exposition {
    Exposition::of(&sukkal.url("")).await
}

/// Returns the value of a sample that must exist.
async fn value(sukkal: &Sukkal, series: &str) -> f64 {
    let metrics = metrics(sukkal).await;
    metrics.value(series).unwrap_or_else(|| panic!("{series} is missing in {metrics:?}"))
}

/// Reads the metrics until a sample has this value. Queues are read only from time to time.
async fn becomes(sukkal: &Sukkal, series: &str, expected: Option<f64>) {
    let deadline = Instant::now() + FIGURES_TIMEOUT;
    loop {
        let found = metrics(sukkal).await.value(series);
        if found == expected {
            return;
        }
        assert!(Instant::now() < deadline, "{series} is {found:?} and not {expected:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn post(api: &Api, queue: &str, count: usize) {
    let messages = vec![json!({ "body": 1 }); count];
    answered(api.post(&format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages })), 201).await;
}

async fn claim(api: &Api, queue: &str, limit: usize) -> Answer {
    send(api.post(&format!("/v2/queues/{queue}/claims?limit={limit}"), &json!({}))).await
}

#[tokio::test]
async fn promtool_finds_nothing_wrong_with_the_metrics() {
    let sukkal = Sukkal::start_with("memory:", &[(QUEUES, "a \"quoted\" project/q")]);
    post(&sukkal.project("p"), "q", 1).await;
    let exposition = support::plain_http::get(sukkal.url("/metrics")).await.unwrap().text().await.unwrap();
    assert!(
        exposition.contains(r#"sukkal_queue_messages{project="a \"quoted\" project",queue="q"} 0"#),
        "{exposition}"
    );

    let mut promtool = child_command("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = spawn(promtool).expect("promtool is installed: `make tools`");
    promtool.stdin.take().unwrap().write_all(exposition.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();

    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.trim().is_empty(), "{said}");
}

#[tokio::test]
async fn a_listed_queue_shows_its_messages_their_age_and_its_dead_letters() {
    let redis = RedisServer::shared();
    let project = format!("project-{}", uuid::Uuid::new_v4());
    let sukkal = Sukkal::start_with(&redis.url(), &[(QUEUES, &format!("{project}/q,{project}/none"))]);
    let api = sukkal.project(&project);
    let dead_letters = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" });
    answered(api.put("/v2/queues/q").json(&dead_letters), 201).await;
    post(&api, "q", 5).await;
    post(&api, "unlisted", 1).await;
    let claimed = claim(&api, "q", 2).await;
    answered(api.delete(claimed.header("location").unwrap()), 204).await;
    assert_eq!(claim(&api, "q", 3).await.status, 201);

    let series = |metric: &str, queue: &str| format!("{metric}{{project=\"{project}\",queue=\"{queue}\"}}");
    becomes(&sukkal, &series("sukkal_queue_dead_letters", "q"), Some(2.0)).await;
    let metrics = metrics(&sukkal).await;
    let of_queue = |metric: &str| metrics.value(&series(metric, "q")).unwrap();
    assert_eq!((of_queue("sukkal_queue_messages"), of_queue("sukkal_queue_claimed_messages")), (3.0, 1.0));
    let age_s = of_queue("sukkal_queue_oldest_message_age_seconds");
    assert!((0.0..60.0).contains(&age_s), "{age_s}");
    assert_eq!(metrics.value(&series("sukkal_queue_messages", "none")), Some(0.0));
    assert_eq!(metrics.all("sukkal_queue_messages").len(), 2, "other queues are not shown");
}

#[tokio::test]
async fn all_queues_of_a_project_can_be_shown_without_naming_them() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[(QUEUES, "p/*,other/named")]);
    let api = sukkal.project("p");
    post(&api, "first", 2).await;
    answered(api.post("/v2/topics/news/messages", &json!({ "messages": [{ "body": 1 }] })), 201).await;
    let messages = |queue: &str| format!("sukkal_queue_messages{{project=\"p\",queue=\"{queue}\"}}");
    becomes(&sukkal, &messages("first"), Some(2.0)).await;

    post(&api, "second", 1).await;
    answered(api.delete("/v2/queues/first"), 204).await;
    becomes(&sukkal, &messages("second"), Some(1.0)).await;
    let shown = metrics(&sukkal).await;

    assert_eq!(shown.value(&messages("first")), None);
    assert_eq!(shown.all("sukkal_queue_messages").len(), 2, "the topic is not shown: {shown:?}");
    assert_eq!(shown.value("sukkal_queue_figures_missing"), Some(0.0));
}

#[tokio::test]
async fn queues_beyond_the_maximum_are_reported_as_missing() {
    let named: Vec<String> = (0..498).map(|number| format!("p/named-{number}")).collect();
    let sukkal = Sukkal::start_with("memory:", &[(QUEUES, &format!("{},p/*,other/*", named.join(",")))]);
    for project in ["other", "p"] {
        for queue in ["a", "b"] {
            post(&sukkal.project(project), queue, 1).await;
        }
    }

    becomes(&sukkal, "sukkal_queue_figures_missing", Some(1.0)).await;

    let shown = metrics(&sukkal).await;
    assert_eq!(shown.all("sukkal_queue_messages").len(), 500);
    assert_eq!(shown.value("sukkal_queue_messages{project=\"other\",queue=\"b\"}"), Some(1.0));
}

#[tokio::test]
async fn a_listed_queue_counts_its_messages_that_expired() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[(QUEUES, "p/q"), MOVABLE_CLOCK]);
    post(&sukkal.project("p"), "q", 3).await;
    let expired = "sukkal_queue_expired_messages_total";
    let of_queue = format!("{expired}{{project=\"p\",queue=\"q\"}}");
    becomes(&sukkal, &of_queue, Some(0.0)).await;

    let queue = QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap();
    set_clock(&open_movable(&redis.url()), &queue, TWO_HOURS_US).await;

    becomes(&sukkal, &of_queue, Some(3.0)).await;
    assert_eq!(metrics(&sukkal).await.kinds[expired], "counter");
}

/// Returns the number of scripts that a Redis has run.
fn scripts(redis: &RedisServer) -> u64 {
    let reply = redis.command(&["INFO", "commandstats"]);
    let line = reply.as_text().lines().find(|line| line.starts_with("cmdstat_fcall:"));
    line.and_then(|line| line.split(['=', ',']).nth(1)).map_or(0, |calls| calls.parse().unwrap())
}

#[tokio::test]
async fn many_readers_of_the_metrics_cost_the_store_as_much_as_one() {
    let redis = RedisServer::start();
    let queues: Vec<String> = (0..100).map(|number| format!("p/q{number}")).collect();
    let options = [(QUEUES, queues.join(",")), ("SUKKAL_JANITOR__PAUSE", "3600".to_owned())];
    let sukkal = Sukkal::start_with(&redis.url(), &options.each_ref().map(|(name, value)| (*name, value.as_str())));
    becomes(&sukkal, "sukkal_queue_messages{project=\"p\",queue=\"q7\"}", Some(0.0)).await;
    let (once, began) = (scripts(&redis), Instant::now());
    assert!(once >= 100, "{once} scripts for the first reader");

    join_all((0..50).map(|_| metrics(&sukkal))).await;

    // Less than two readings of all queues, unless the machine was very slow.
    let readings = began.elapsed().as_secs() / 10 + 1;
    assert!(scripts(&redis) - once <= readings * once, "{} and then {once}", scripts(&redis));
}

#[tokio::test]
async fn the_metrics_answer_in_time_while_the_store_is_away() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[(QUEUES, "p/q")]);
    let of_queue = "sukkal_queue_messages{project=\"p\",queue=\"q\"}";
    becomes(&sukkal, of_queue, Some(0.0)).await;
    assert_eq!(value(&sukkal, "sukkal_store_up").await, 1.0);

    redis.pause();
    becomes(&sukkal, "sukkal_store_up", Some(0.0)).await;
    let began = Instant::now();
    let during = metrics(&sukkal).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert_eq!(during.value("sukkal_store_up"), Some(0.0));
    becomes(&sukkal, of_queue, None).await;
    assert_eq!(value(&sukkal, "sukkal_queue_figures_missing").await, 1.0);

    redis.resume();
    becomes(&sukkal, "sukkal_store_up", Some(1.0)).await;
    becomes(&sukkal, of_queue, Some(0.0)).await;
}

#[tokio::test]
async fn operations_of_the_store_are_timed_and_messages_are_counted() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("p");
    let operations = "sukkal_store_operation_duration_seconds_count";
    assert_eq!(value(&sukkal, operations).await, 0.0, "a reader of the metrics is not counted");

    post(&api, "q", 5).await;
    claim(&api, "q", 2).await;
    answered(api.delete("/v2/queues/q/messages?pop=1"), 200).await;
    answered(api.delete("/v2/queues/q/messages/no-such-id"), 204).await;

    assert_eq!(value(&sukkal, operations).await, 4.0);
    assert!(value(&sukkal, "sukkal_store_operation_duration_seconds_sum").await > 0.0);
    let metrics = metrics(&sukkal).await;
    let totals = ["posted", "claimed", "deleted", "expired", "dead_lettered"]
        .map(|event| metrics.value(&format!("sukkal_messages_{event}_total")).unwrap());
    assert_eq!(totals, [5.0, 3.0, 1.0, 0.0, 0.0]);
}

#[tokio::test]
async fn refused_requests_are_counted() {
    const CLIENTS: usize = 1_000;
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_TRANSPORT__MAX_QUEUEING", "1")]);
    let api = sukkal.project("p");
    post(&api, "q", 1).await;
    assert_eq!(value(&sukkal, "sukkal_store_requests_refused_total").await, 0.0);

    assert_eq!(connections_max(CLIENTS), CLIENTS, "the limit on open files is too low");
    let mut refused = 0;
    // On a busy machine, so few requests may arrive at the same time that all of them are accepted,
    // until the store is known to be down.
    until("requests are refused", async || {
        redis.pause();
        let requests = (0..CLIENTS).map(|_| send(api.get("/v2/queues/q/messages?echo=true")));
        let answers = join_all(requests).await;
        refused += answers.iter().filter(|answer| answer.text.contains("more requests than")).count();
        redis.resume();
        until("the store is back", async || send(api.get("/v2/queues/q")).await.status == 200).await;
        refused > 0
    })
    .await;

    assert_eq!(value(&sukkal, "sukkal_store_requests_refused_total").await, refused as f64);
}

#[tokio::test]
async fn waiters_streams_and_connections_are_counted_while_they_exist() {
    let sukkal = Sukkal::start("memory:");
    let api = sukkal.project("p");
    let (stream, other) =
        (Events::open(api.get("/v2/queues/q/messages")).await, Events::open(api.get("/v2/queues/r/messages")).await);
    let waiting = tokio::spawn({
        let api = api.clone();
        async move { send(api.post("/v2/queues/q/claims?wait=30", &json!({}))).await }
    });

    becomes(&sukkal, "sukkal_waiting_requests", Some(1.0)).await;
    assert_eq!(value(&sukkal, "sukkal_event_streams").await, 2.0);
    assert!(value(&sukkal, "sukkal_http_connections").await >= 3.0);

    post(&api, "q", 1).await;
    assert_eq!(waiting.await.unwrap().status, 201);
    drop((stream, other));
    becomes(&sukkal, "sukkal_event_streams", Some(0.0)).await;
    becomes(&sukkal, "sukkal_waiting_requests", Some(0.0)).await;
}

#[tokio::test]
async fn an_embedded_store_shows_its_size_and_the_free_space_of_its_disk() {
    let folder = tempfile::tempdir().unwrap();
    let sukkal = Sukkal::start(&format!("embedded:{}", folder.path().display()));

    let size = value(&sukkal, "sukkal_store_size_bytes").await;
    let on_disk = std::fs::metadata(folder.path().join("sukkal.redb")).unwrap().len();
    assert_eq!(size, on_disk as f64);
    let free = value(&sukkal, "sukkal_store_disk_free_bytes").await;
    let space = rustix::fs::statvfs(folder.path()).unwrap();
    let expected = (space.f_bavail * space.f_frsize) as f64;
    assert!(free > expected * 0.5 && free < expected * 2.0, "{free} and {expected}");
    let in_memory = Sukkal::start("memory:");
    assert_eq!(metrics(&in_memory).await.value("sukkal_store_size_bytes"), None);
}

#[tokio::test]
async fn the_process_and_its_maintenance_are_shown() {
    let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_JANITOR__PAUSE", "1")]);
    post(&sukkal.project("p"), "q", 1).await;

    becomes(&sukkal, "sukkal_janitor_rounds_total{result=\"failed\"}", Some(0.0)).await;
    let visited = async || value(&sukkal, "sukkal_janitor_queues_visited_total").await;
    until("the janitor visits a queue", async || visited().await >= 1.0).await;
    assert!(value(&sukkal, "sukkal_janitor_rounds_total{result=\"done\"}").await >= 1.0);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    assert_eq!(metrics(&sukkal).await.value("process_max_fds"), limit.map(|limit| limit as f64));
    assert!(value(&sukkal, "process_resident_memory_bytes").await > 1e6);
    assert!(value(&sukkal, "process_cpu_seconds_total").await > 0.0);
}
