//! Schemathesis sends generated requests to the service: no response is a 5xx, and every response
//! matches `openapi.yaml`. One half of the requests are for topics.
//!
//! `schemathesis.toml` configures the generated requests and their number. `schemathesis_hooks.py`
//! adapts the requests to rules that the contract cannot express.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::contract::{self, contract, operations};
use crate::push::LOCAL;
use crate::push::endpoint::{Answer, Endpoint};
use support::python;
use support::redis::{RedisServer, child_command, spawn};
use support::sukkal::Sukkal;

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/schemathesis.toml");
const HOOKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/clients/schemathesis_hooks.py");

/// Options that enable all optional features of a server, and make all headers optional.
const OPTIONS: [(&str, &str); 10] = [
    LOCAL[0],
    ("SUKKAL_AUTH__STRATEGIES", "none,tokens"),
    ("SUKKAL_ADMIN_MODE", "true"),
    ("SUKKAL_POOLING__ENABLED", "true"),
    ("SUKKAL_POOLING__VIRTUAL_POOL", "true"),
    ("SUKKAL_ENABLE_CHECKSUM", "true"),
    ("SUKKAL_TRANSPORT__DEFAULT_PROJECT", PROJECT),
    ("SUKKAL_TRANSPORT__CLIENT_ID", "optional"),
    ("SUKKAL_SIGNED_URL__SECRET_KEY", "any"),
    ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "any"),
];
/// The project and queue of most requests, as in `schemathesis.toml`.
const PROJECT: &str = "demo";
const QUEUE: &str = "orders";
/// Number of messages posted before the run: more than a run pops and claims.
const MESSAGE_COUNT: usize = 5000;
/// Maximum number of messages in one post.
const MESSAGES_PER_POST: usize = 1000;

/// The operation that `schemathesis.toml` leaves out, because it is for an embedded store.
const BACKUP: &str = "GET /v2/backup";

/// Successful responses that must also occur with items in them, because empty ones prove little.
const LISTS: [&str; 5] = [
    "GET /v2/queues 200",
    "GET /v2/queues/{queue_name}/stats 200",
    "GET /v2/queues/{queue_name}/messages 200",
    "DELETE /v2/queues/{queue_name}/messages 200",
    "GET /v2/queues/{queue_name}/claims/{claim_id} 200",
];

/// The beginning of the paths of topics.
const TOPICS: &str = "/v2/topics";

#[tokio::test(flavor = "multi_thread")]
async fn every_response_about_a_topic_matches_the_contract() {
    check(["--include-path-regex", TOPICS], |path| path.starts_with(TOPICS)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_other_response_matches_the_contract() {
    check(["--exclude-path-regex", TOPICS], |path| !path.starts_with(TOPICS)).await;
}

/// Checks the responses about paths that the options select, as the function does.
async fn check(selection: [&str; 2], is_selected: fn(&str) -> bool) {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &OPTIONS);
    let dir = tempfile::tempdir().unwrap();
    let record = dir.path().join("record.har");
    let messages = json!({ "messages": vec![json!({ "body": "to be taken" }); MESSAGES_PER_POST] });
    for _ in 0..MESSAGE_COUNT / MESSAGES_PER_POST {
        let post = sukkal.project(PROJECT).post(&format!("/v2/queues/{QUEUE}/messages"), &messages);
        post.send().await.unwrap().error_for_status().unwrap();
    }

    let pools = RedisServer::start();
    let create = async |path: &str, body: Value| {
        let request = sukkal.project(PROJECT).put(path).header("X-Roles", "admin").json(&body);
        request.send().await.unwrap().error_for_status().unwrap();
    };
    create("/v2/pools/kept", json!({ "uri": format!("{}/kept", pools.url()), "weight": 1 })).await;
    create("/v2/flavors/kept", json!({ "pool_list": ["kept"] })).await;

    // Attempts that fail, but not so fast that the retries take the time of the requests.
    let subscriber = Endpoint::answering(|_| Answer::After(Duration::from_secs(1), 500));
    let environment = [("POOLS", pools.url()), ("SUBSCRIBERS", subscriber.url(""))];

    let output = run_schemathesis(&sukkal, selection, environment, dir.path(), &record);

    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let seen = answers(&record);
    let missed: Vec<_> = successes(is_selected).difference(&seen).cloned().collect();
    assert_eq!(missed, [""; 0], "the run had none of these responses");
}

fn run_schemathesis(
    sukkal: &Sukkal,
    selection: [&str; 2],
    environment: [(&str, String); 2],
    dir: &Path,
    record: &Path,
) -> Output {
    let mut command = child_command(python::venv());
    command.args(["-m", "schemathesis.cli", "--config-file", CONFIG]);
    command.args(["run", contract::PATH, "--url", &sukkal.url(""), "--no-color"]).args(selection);
    command.arg("--report-har-path");
    command.arg(record).env("SCHEMATHESIS_HOOKS", HOOKS).envs(environment).current_dir(dir);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    spawn(command).expect("the interpreter starts").wait_with_output().expect("the process can be waited for")
}

/// Returns each successful response of the contract about these paths, such as `GET /v2/queues
/// 200`. Responses of `LISTS` are returned a second time as filled ones.
fn successes(is_selected: fn(&str) -> bool) -> BTreeSet<String> {
    let statuses = |operation: contract::Operation| {
        let name = operation.name;
        let statuses = operation.statuses.into_iter().filter(|status| !status.starts_with(['4', '5']));
        statuses.map(move |status| format!("{name} {status}"))
    };
    let is_tried = |operation: &contract::Operation| ![contract::WEBSOCKET, BACKUP].contains(&&*operation.name);
    let operations = operations(&contract()).into_iter().filter(is_tried);
    let responses = operations.flat_map(statuses).chain(LISTS.map(|list| format!("{list}, filled")));
    responses.filter(|response| response.split(' ').nth(1).is_some_and(is_selected)).collect()
}

/// Returns the responses of the recorded run, by operation.
fn answers(record: &Path) -> BTreeSet<String> {
    let contract = contract();
    let paths: Vec<&String> = contract["paths"].as_object().expect("the contract has paths").keys().collect();
    let record: Value = serde_json::from_slice(&std::fs::read(record).expect("the run was recorded")).unwrap();
    let entries = record["log"]["entries"].as_array().expect("the record has entries");
    let answer = |entry: &Value| {
        let url = reqwest::Url::parse(entry["request"]["url"].as_str()?).ok()?;
        let path = paths.iter().find(|path| matches(path, url.path()))?;
        let answer = format!("{} {path} {}", entry["request"]["method"].as_str()?, entry["response"]["status"]);
        let body = entry["response"]["content"]["text"].as_str().unwrap_or_default();
        let filled = (body.contains("[{") || body.contains("newest")).then(|| format!("{answer}, filled"));
        Some([Some(answer), filled])
    };
    entries.iter().filter_map(answer).flatten().flatten().collect()
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(&path).all(|(wanted, segment)| wanted.starts_with('{') || wanted == segment)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
