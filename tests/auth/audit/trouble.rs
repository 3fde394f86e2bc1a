//! Floods of refused requests, rotation, a full disk, and the death of the process.

use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Instant;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use serde_json::{Value, json};

use super::{AUDIT_FILE, Audited, REFUSALS_MAX, lines_of};
use crate::auth::{STRATEGIES, TRUSTED_PROXIES};
use crate::http::{answered, send};
use support::exposition::Exposition;
use support::ports::free_port;
use support::redis::{child_command, limit_files, spawn};
use support::sukkal::{Api, Sukkal, binary};
use support::waiting::{block_until, until};

const LOST: &str = "sukkal_audit_records_lost_total";
/// Length of the period for which refused requests are counted, in seconds.
const PERIOD_S: u64 = 5;

async fn create(api: &Api, queue: &str) {
    answered(api.put(&format!("/v2/queues/{queue}")), 201).await;
}

fn queues(lines: &[Value]) -> Vec<&str> {
    lines.iter().filter_map(|line| line["queue"].as_str()).collect()
}

#[tokio::test]
async fn a_flood_of_refused_requests_is_cut_off_and_counted_and_hides_nothing_else() {
    const REQUESTS: usize = 4 * REFUSALS_MAX;
    let roles = ("SUKKAL_POLICY__PRESET", "roles");
    let server = Audited::start("memory:", &[(STRATEGIES, "proxy"), (TRUSTED_PROXIES, "127.0.0.1"), roles]);
    let stranger = server.sukkal.project("shop").from(crate::auth::STRANGER);
    let api = server.sukkal.project("shop");

    let start = Instant::now();
    for _ in 0..REQUESTS / 50 {
        let refused = join_all((0..50).map(|_| send(stranger.get("/v2/queues")))).await;
        assert!(refused.iter().all(|answer| answer.status == 401));
    }
    let periods = usize::try_from(start.elapsed().as_secs() / PERIOD_S).unwrap() + 1;
    // Neither a change nor the refusal of a known client is left out.
    answered(api.put("/v2/queues/orders").header("X-Roles", "manager"), 201).await;
    answered(api.put("/v2/queues/mails").header("X-Roles", "reader"), 403).await;

    let omitted = |lines: &[Value]| lines.iter().filter_map(|line| line["omitted"].as_u64()).sum::<u64>();
    let refused = |lines: &[Value]| lines.iter().filter(|line| line["status"] == 401).count();
    block_until("all requests are recorded or counted", || {
        let lines = server.lines();
        usize::try_from(omitted(&lines)).unwrap() + refused(&lines) == REQUESTS && queues(&lines).len() == 2
    });
    let lines = server.lines();
    assert!(refused(&lines) <= periods * REFUSALS_MAX, "{lines:#?}");
    let reports = lines.iter().filter(|line| line["reason"] == "too many refused requests of unknown senders");
    assert!((1..=periods).contains(&reports.count()), "{lines:#?}");
    assert_eq!(queues(&lines), ["orders", "mails"]);
}

/// A failed request has changed nothing, so the limit on its records hides no change.
#[tokio::test]
async fn a_flood_of_refused_subscriptions_changes_nothing() {
    let server = Audited::start("memory:", &[]);
    let api = server.sukkal.project("shop");
    let subscribe = |queue: usize, subscriber: &str| {
        send(api.post(&format!("/v2/queues/q{queue}/subscriptions"), &json!({ "subscriber": subscriber })))
    };

    let refused = join_all((0..3 * REFUSALS_MAX).map(|queue| subscribe(queue, "http://127.0.0.1:1/"))).await;

    assert!(refused.iter().all(|answer| answer.status == 400));
    assert_eq!(answered(api.get("/v2/queues"), 200).await.json()["queues"], json!([]));
    let created = subscribe(0, "http://1.1.1.1/").await;
    assert_eq!((created.status, &server.line_of(&created)["outcome"]), (201, &json!("success")));
}

#[tokio::test]
async fn after_a_rotation_lines_go_to_a_new_file_that_others_cannot_read() {
    let server = Audited::start("memory:", &[]);
    let api = server.sukkal.project("shop");
    let old = server.path.with_extension("1");
    create(&api, "a").await;
    assert_eq!(server.path.metadata().unwrap().permissions().mode() & 0o777, 0o600);

    fs::rename(&server.path, &old).unwrap();
    create(&api, "b").await;
    fs::remove_file(&server.path).unwrap();
    create(&api, "c").await;

    assert_eq!((queues(&lines_of(&old)), queues(&server.lines())), (vec!["a"], vec!["c"]));
    assert_eq!(server.path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[tokio::test]
async fn no_line_is_lost_while_the_file_is_renamed_again_and_again() {
    const QUEUES: usize = 200;
    let server = Audited::start("memory:", &[]);
    let api = server.sukkal.project("shop");
    let old = |number: usize| server.path.with_extension(number.to_string());

    let mut renamed = 0;
    let change = |queue: usize| {
        let api = api.clone();
        async move { create(&api, &format!("q{queue}")).await }
    };
    let mut changes: FuturesUnordered<_> = (0..QUEUES).map(change).collect();
    while changes.next().await.is_some() {
        if fs::rename(&server.path, old(renamed)).is_ok() {
            renamed += 1;
        }
    }

    let mut recorded = HashSet::new();
    for path in (0..renamed).map(old).chain([server.path.clone()]) {
        let lines = lines_of(&path);
        recorded.extend(queues(&lines).into_iter().map(str::to_owned));
    }
    assert!(renamed > 1 && recorded.len() == QUEUES, "{renamed} {}", recorded.len());
}

#[tokio::test]
async fn a_full_disk_fails_no_request_and_the_gap_is_reported() {
    let server = Audited::start("memory:", &[]);
    let api = server.sukkal.project("shop");
    create(&api, "a").await;
    let length = server.path.metadata().unwrap().len();

    // There is room for a part of a line.
    limit_files(server.sukkal.id(), Some(length + 100));
    create(&api, "b").await;
    create(&api, "c").await;
    assert_eq!(Exposition::of(&server.sukkal.url("")).await.value(LOST), Some(2.0));
    assert_eq!(server.sukkal.logged("the audit log cannot be written").await.len(), 1);

    limit_files(server.sukkal.id(), None);
    create(&api, "d").await;
    let text = fs::read_to_string(&server.path).unwrap();
    let lines: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(queues(&lines), ["a", "d"]);
    let gap = lines.iter().find(|line| line["omitted"].is_u64()).unwrap();
    assert_eq!((&gap["omitted"], &gap["reason"]), (&json!(2), &json!("the audit log could not be written")));
    assert_eq!(Exposition::of(&server.sukkal.url("")).await.value(LOST), Some(2.0));
}

#[tokio::test]
async fn what_was_acknowledged_is_in_the_log_after_a_crash() {
    let mut server = Audited::start("memory:", &[]);
    let api = server.sukkal.project("shop");

    for queue in ["a", "b", "c"] {
        create(&api, queue).await;
    }
    server.sukkal.kill();

    assert_eq!(queues(&server.lines()), ["a", "b", "c"]);
}

#[tokio::test]
async fn the_log_can_go_to_stdout() {
    let port = free_port();
    let mut command = child_command(binary());
    command.args(["serve", "--store", "memory:", "--bind", &format!("127.0.0.1:{port}")]).env(AUDIT_FILE, "stdout");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut process = spawn(command).unwrap();
    let api = Api::new(format!("http://127.0.0.1:{port}"), "shop");
    until("it listens", async || api.get("/v2/ping").send().await.is_ok()).await;
    create(&api, "orders").await;

    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&line).unwrap()["queue"], "orders");
    process.kill().unwrap();
    process.wait().unwrap();
}

#[tokio::test]
async fn the_log_can_go_to_stderr() {
    let sukkal = Sukkal::start_with("memory:", &[(AUDIT_FILE, "STDERR")]);
    create(&sukkal.project("shop"), "orders").await;

    let lines = sukkal.logged("\"queues:create\"").await;
    assert_eq!(serde_json::from_str::<Value>(&lines[0]).unwrap()["queue"], "orders");
}
