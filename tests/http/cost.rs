//! The CPU time of a request grows linearly with the size of its input, up to the largest accepted
//! input.
//!
//! The tests measure the CPU time of the server process, which does not depend on other load.

use std::fs;
use std::sync::Arc;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{PATCH_TYPE, Project, Server};

/// Size of the larger input, as a multiple of the smaller one.
const FACTOR: usize = 4;
/// Maximum ratio of the CPU times. Linear work stays below it, and quadratic work takes twice as
/// much.
const RATIO_MAX: f64 = 8.0;
const REQUESTS: u32 = 10;

/// Returns `count` distinct metadata keys.
fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("{number:04}"))
}

async fn patch_with_removals(project: &Project, count: usize) -> RequestBuilder {
    let metadata: Value = keys(count).map(|key| (key, json!(0))).collect::<serde_json::Map<_, _>>().into();
    let queue = format!("/v2/queues/patched-{count}");
    project.delete(&queue).send().await.unwrap();
    assert_eq!(project.put(&queue).json(&metadata).send().await.unwrap().status(), 201);
    let operations: Value =
        keys(count).map(|key| json!({"op": "remove", "path": format!("/metadata/{key}")})).collect();
    project.request(Method::PATCH, &queue).header("Content-Type", PATCH_TYPE).body(operations.to_string())
}

async fn list_with_repeated_parameters(project: &Project, count: usize) -> RequestBuilder {
    project.get(&format!("/v2/queues/q/messages?{}", vec!["ids=a"; count].join("&")))
}

async fn list_with_commas_in_accept(project: &Project, count: usize) -> RequestBuilder {
    project.get("/v2/queues").header("Accept", ",".repeat(count))
}

async fn post_with_messages(project: &Project, count: usize) -> RequestBuilder {
    project.post("/v2/queues/q/messages", &json!({ "messages": vec![json!({"body": []}); count] }))
}

/// Posts many arrays that are nested as deeply as the parser allows.
async fn post_with_nested_arrays(project: &Project, count: usize) -> RequestBuilder {
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let body = format!("{{\"messages\": [{{\"body\": [{}]}}]}}", vec![nested; count].join(","));
    project.request(Method::POST, "/v2/queues/q/messages").header("Content-Type", "application/json").body(body)
}

/// The query is parsed for the metrics, before its size is checked. The name contains the word that
/// they look for.
async fn get_with_a_long_name_and_many_values(project: &Project, count: usize) -> RequestBuilder {
    project.get(&format!("/v2/queues?wait{}={}", "n".repeat(count), "a,".repeat(count)))
}

/// Posts nested objects, of which the outermost one has equal keys.
async fn post_with_equal_keys(project: &Project, count: usize) -> RequestBuilder {
    let padding = vec!["0"; 500].join(",");
    let nested = (0..count).fold("0".to_owned(), |inner, _| format!(r#"{{"a": [{padding}], "b": {inner}}}"#));
    let body = format!(r#"{{"messages": [{{"body": {{"c": 0, "c": {nested}}}}}]}}"#);
    project.request(Method::POST, "/v2/queues/q/messages").header("Content-Type", "application/json").body(body)
}

/// Returns the CPU time that a process has used, in nanoseconds.
fn cpu_time_ns(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ns = |stat: String| stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default();
    threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("schedstat")).ok()).map(ns).sum()
}

/// Median CPU time of several requests of this size, in nanoseconds. Each must be answered with
/// this status. The kernel may count a part of the time of a request only during the next one, so
/// the lowest time would be too low.
macro_rules! cost {
    ($project:expr, $request:ident, $size:expr, $status:expr) => {{
        let mut costs = Vec::new();
        for _ in 0..REQUESTS {
            let request = $request($project, $size).await;
            let before = cpu_time_ns($project.server.sukkal.id());
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), $status);
            answer.bytes().await.unwrap();
            costs.push(cpu_time_ns($project.server.sukkal.id()) - before);
        }
        costs.sort_by(f64::total_cmp);
        costs[costs.len() / 2]
    }};
}

macro_rules! assert_linear {
    ($project:expr, $request:ident, $largest:expr, $status:expr) => {
        let (small, large) =
            (cost!($project, $request, $largest / FACTOR, $status), cost!($project, $request, $largest, $status));
        assert!(large < RATIO_MAX * small, "{}: {small} ns and {large} ns", stringify!($request));
    };
}

#[tokio::test]
async fn cpu_time_grows_linearly_with_the_size_of_the_input() {
    let server = Arc::new(Server::start(&[]));
    let project = &Project::of(&server, "cost");

    assert_linear!(project, patch_with_removals, 900, 200);
    assert_linear!(project, list_with_repeated_parameters, 1_300, 400);
    assert_linear!(project, list_with_commas_in_accept, 60_000, 406);
    assert_linear!(project, post_with_messages, 1_000, 201);
    assert_linear!(project, post_with_nested_arrays, 1_000, 201);
    assert_linear!(project, get_with_a_long_name_and_many_values, 20_000, 414);
    assert_linear!(project, post_with_equal_keys, 100, 201);
}
