//! `sukkal bench`: the figures match the requests, failures are reported, and no queues are left
//! behind.

use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::stand_in::{Answer, StandIn};
use support::redis::{RedisServer, child_command, spawn};
use support::sukkal::Sukkal;

const PROJECT: &str = "bench";
const INTERRUPTED: i32 = 130;

fn bench(url: &str, flags: &str) -> Command {
    let mut command = child_command(support::sukkal::binary());
    command.args(["bench", url]).args(flags.split_whitespace()).stdin(Stdio::null());
    command
}

fn run(url: &str, flags: &str) -> Output {
    bench(url, flags).output().expect("the binary under test starts")
}

fn figures(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("the output is not JSON: {output:?}"))
}

fn kind<'a>(figures: &'a Value, name: &str) -> &'a Value {
    let kinds = figures["kinds"].as_array().expect("there are kinds");
    kinds.iter().find(|kind| kind["kind"] == name).unwrap_or_else(|| panic!("{name} is missing in {figures}"))
}

fn number(of: &Value, name: &str) -> f64 {
    of[name].as_f64().unwrap_or_else(|| panic!("{name} is not a number in {of}"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("it is text")
}

async fn queues(sukkal: &Sukkal) -> Value {
    let listed = sukkal.project(PROJECT).get("/v2/queues").send().await.expect("the server answers");
    listed.json::<Value>().await.expect("queues are listed")["queues"].clone()
}

#[tokio::test]
async fn the_figures_match_the_requests_of_each_kind() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start(&redis.url());
    let url = sukkal.url("");
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let flags = format!(
        "--json --produce 3 --observe 2 --claim 2 --queues 2 --prefill 500 --batch 2 --limit 5 --duration 2 --threads 2 \
         --warmup 0.2 --project {PROJECT} --report {}",
        report.display()
    );

    let output = run(&url, &flags);
    let figures = figures(&output);
    let page = std::fs::read_to_string(&report).unwrap();

    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stderr), "", "the progress bar is only for terminals");
    assert_eq!(figures["url"], Value::from(url));
    for (name, connections) in [("produce", 3), ("observe", 2), ("claim", 2), ("delete", 2)] {
        let kind = kind(&figures, name);
        let (requests, latency) = (number(kind, "requests"), &kind["latency_ms"]);
        let throughput = kind["throughput"].as_array().unwrap();
        assert_eq!(kind["connections"], connections);
        assert_eq!(kind["errors"], serde_json::json!({}), "{kind}");
        assert!(requests > 0.0 && number(latency, "p50") > 0.0, "{kind}");
        assert!(
            number(latency, "p50") <= number(latency, "p99.9") && number(latency, "p99.9") <= number(latency, "max")
        );
        assert_eq!(throughput.iter().filter_map(Value::as_u64).sum::<u64>(), kind["requests"]);
        assert!((number(kind, "requests_per_second") * 2.0 - requests).abs() < 0.1, "{kind}");
        assert!(page.contains(&format!("Latency of {name} by percentile")), "the plot of {name} is missing");
        assert!(page.contains(&format!(" {:.2} ", number(latency, "p99"))), "the p99 of {name} is missing");
    }
    let messages = |name| number(kind(&figures, name), "messages");
    let requests = |name| number(kind(&figures, name), "requests");
    assert!((messages("produce") - 2.0 * requests("produce")).abs() < 0.1, "{figures}");
    assert!(messages("observe") > requests("observe"), "pages have several messages");
    // At most a few batches differ: messages claimed near the end are deleted after the
    // measurement.
    assert!((messages("claim") - messages("delete")).abs() <= 2.0 * 2.0 * 5.0, "{figures}");
    assert_eq!(queues(&sukkal).await, serde_json::json!([]));
}

#[test]
fn the_report_is_self_contained() {
    let stand_in = StandIn::start(|_, _| Answer { status: 201, ..Answer::default() });
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");

    let flags = format!("--produce 1 --duration 1 --warmup 0 --report {}", report.display());
    let output = run(stand_in.url(), &flags);
    let page = std::fs::read_to_string(&report).unwrap();

    assert!(output.status.success(), "{output:?}");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"));
    for outside in ["src=", "href=", "@import", "url(", "<script", "<link", "<iframe"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[tokio::test]
async fn existing_queues_are_kept() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start(&redis.url());
    let api = sukkal.project("kept");
    api.put("/v2/queues/mine-0").send().await.unwrap();

    let flags = "--produce 2 --duration 1 --warmup 0 --queue mine --queues 2 --project kept";
    let output = run(&sukkal.url(""), flags);

    let listed = api.get("/v2/queues").send().await.unwrap().json::<Value>().await.unwrap();
    let names: Vec<&Value> = listed["queues"].as_array().unwrap().iter().map(|queue| &queue["name"]).collect();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(names, ["mine-0"]);
}

#[test]
fn a_service_that_answers_503_from_the_start_is_reported() {
    let stand_in = StandIn::start(|_, _| Answer { status: 503, body: "not today".to_owned(), ..Answer::default() });

    let output = run(stand_in.url(), "--duration 1 --warmup 0");

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let reason = text(&output.stderr);
    assert!(reason.contains("503") && reason.contains("not today"), "{reason}");
}

#[test]
fn if_every_request_fails_the_failures_are_counted_and_the_exit_code_is_1() {
    let posts = Arc::new(AtomicU64::new(0));
    let counted = posts.clone();
    let stand_in = StandIn::start(move |method, _| match method {
        "POST" => {
            counted.fetch_add(1, Ordering::Relaxed);
            Answer { status: 503, ..Answer::default() }
        }
        _ => Answer { status: 204, ..Answer::default() },
    });

    let json = run(stand_in.url(), "--json --produce 2 --duration 1 --warmup 0");
    let table = run(stand_in.url(), "--produce 2 --duration 1 --warmup 0");

    let figures = figures(&json);
    let produce = kind(&figures, "produce");
    assert_eq!((json.status.code(), table.status.code()), (Some(1), Some(1)));
    assert_eq!((number(produce, "requests"), &produce["latency_ms"]), (0.0, &Value::Null));
    assert!(number(&produce["errors"], "503") > 0.0 && posts.load(Ordering::Relaxed) > 0, "{produce}");
    assert!(text(&table.stdout).contains("503 × "), "{table:?}");
    assert!(text(&table.stderr).contains("no request was answered with 2xx"), "{table:?}");
}

#[test]
fn failures_are_counted_separately_from_successes() {
    let posts = AtomicU64::new(0);
    let stand_in = StandIn::start(move |method, _| {
        let fails = method == "POST" && posts.fetch_add(1, Ordering::Relaxed).is_multiple_of(4);
        Answer { status: if fails { 503 } else { 201 }, ..Answer::default() }
    });

    let output = run(stand_in.url(), "--json --produce 1 --duration 1 --warmup 0");

    let figures = figures(&output);
    let produce = kind(&figures, "produce");
    let (requests, errors) = (number(produce, "requests"), number(&produce["errors"], "503"));
    assert!(output.status.success(), "{output:?}");
    assert!((requests / 3.0 - errors).abs() <= 2.0, "{produce}");
}

#[test]
fn connections_closed_by_the_service_are_reopened() {
    let stand_in = StandIn::start(|_, _| Answer { status: 201, closes: true, ..Answer::default() });

    let output = run(stand_in.url(), "--json --produce 2 --duration 1 --warmup 0");

    let figures = figures(&output);
    let produce = kind(&figures, "produce");
    assert!(output.status.success(), "{output:?}");
    assert!(number(produce, "requests") > 2.0, "each connection served only one request: {produce}");
}

#[test]
fn a_connection_closed_while_idle_is_not_a_failure() {
    let stand_in = StandIn::start(|_, _| Answer { status: 201, closes: true, ..Answer::default() });

    // The requests are a second apart, so that the client has noticed the closed connection.
    let output = run(stand_in.url(), "--json --produce 1 --rate 1 --duration 4 --warmup 0");

    let figures = figures(&output);
    let produce = kind(&figures, "produce");
    assert_eq!((number(produce, "requests"), &produce["errors"]), (4.0, &serde_json::json!({})));
}

#[test]
fn in_an_open_loop_requests_delayed_by_a_stall_have_a_high_latency() {
    const STALL: Duration = Duration::from_secs(1);
    let stalled = AtomicBool::new(false);
    let posts = AtomicU64::new(0);
    let stand_in = StandIn::start(move |method, _| {
        if method == "POST" && posts.fetch_add(1, Ordering::Relaxed) == 50 && !stalled.swap(true, Ordering::Relaxed) {
            thread::sleep(STALL);
        }
        Answer { status: 201, ..Answer::default() }
    });

    let output = run(stand_in.url(), "--json --produce 1 --rate 100 --duration 2 --warmup 0");

    // Half of the 200 requests were due during the stall of one second, so 2 % of all waited for
    // nearly all of it.
    let figures = figures(&output);
    let latency = &kind(&figures, "produce")["latency_ms"];
    assert!(number(latency, "p99") > 900.0, "{latency}");
    assert!(number(latency, "mean") > 200.0, "{latency}");
}

#[test]
fn an_observer_follows_its_marker_and_restarts_at_the_end() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = asked.clone();
    let stand_in = StandIn::start(move |method, path| {
        if method != "GET" {
            return Answer { status: 201, ..Answer::default() };
        }
        log.lock().unwrap().push(path.to_owned());
        let next = if path.contains("marker=b") { r#""messages": []"# } else { r#""messages": [{"id": "b"}]"# };
        let body = format!(r#"{{{next}, "links": [{{"rel": "next", "href": "/elsewhere?marker=b"}}]}}"#);
        Answer { status: 200, body, ..Answer::default() }
    });

    let output = run(stand_in.url(), "--json --observe 1 --limit 7 --queue feed --duration 2 --warmup 0");

    let asked = asked.lock().unwrap();
    let head = "/v2/queues/feed-0/messages?limit=7&echo=true&include_claimed=true";
    let after = format!("{head}&marker=b");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(asked[..4], [head, &after, head, &after]);
}

#[tokio::test]
async fn ctrl_c_prints_the_figures_and_deletes_the_queues() {
    let redis = RedisServer::shared();
    let sukkal = Sukkal::start(&redis.url());
    let mut command = bench(&sukkal.url(""), "--json --produce 2 --duration 3600 --warmup 0 --project cut");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let process = spawn(command).expect("the binary under test starts");
    let listed = async || {
        let listed = sukkal.project("cut").get("/v2/queues").send().await.expect("the server answers");
        listed.json::<Value>().await.expect("queues are listed")["queues"].as_array().expect("it is a list").clone()
    };
    let name = loop {
        if let Some(queue) = listed().await.first() {
            break queue["name"].as_str().expect("it has a name").to_owned();
        }
    };
    loop {
        let path = format!("/v2/queues/{name}/stats");
        let stats = sukkal.project("cut").get(&path).send().await.expect("the server answers");
        let stats: Value = stats.json().await.expect("there are stats");
        if stats["messages"]["total"].as_u64() > Some(10) {
            break;
        }
    }

    Command::new("kill").args(["-INT", &process.id().to_string()]).status().expect("kill is installed");
    let output = process.wait_with_output().unwrap();

    assert_eq!(output.status.code(), Some(INTERRUPTED), "{output:?}");
    assert!(number(kind(&figures(&output), "produce"), "requests") > 0.0, "{output:?}");
    assert!(listed().await.is_empty());
}

#[test]
fn invalid_options_are_refused_before_any_request() {
    for flags in ["--rate 0", "--queues 0", "--batch 0", "--duration -1", "--project a\nb"] {
        let mut command = child_command(support::sukkal::binary());
        let (flag, value) = flags.split_once(' ').unwrap();
        let output = command.args(["bench", "http://127.0.0.1:1", flag, value]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{flags:?}: {output:?}");
    }
    let nobody = run("http://127.0.0.1:1", "");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("cannot connect to http://127.0.0.1:1"), "{nobody:?}");
}
