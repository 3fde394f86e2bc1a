//! The largest inputs that are accepted cost what their size suggests: the processor time grows with the size of the input, not
//! with its square.
//!
//! Measured as processor time of the server, which does not depend on what else the machine does.

use std::fs;
use std::sync::Arc;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{PATCH_TYPE, Stage, Tenant};

/// The larger input is so many times as large as the smaller one.
const FACTOR: usize = 4;
/// Above what linear work can reach, and half of what quadratic work costs.
const RATIO_MAX: f64 = 8.0;
const REQUESTS: u32 = 10;

/// Keys of metadata.
fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("{number:04}"))
}

async fn removals(tenant: &Tenant, count: usize) -> RequestBuilder {
    let metadata: Value = keys(count).map(|key| (key, json!(0))).collect::<serde_json::Map<_, _>>().into();
    let queue = format!("/v2/queues/patched-{count}");
    tenant.delete(&queue).send().await.unwrap();
    assert_eq!(tenant.put(&queue).json(&metadata).send().await.unwrap().status(), 201);
    let operations: Value =
        keys(count).map(|key| json!({"op": "remove", "path": format!("/metadata/{key}")})).collect();
    tenant.request(Method::PATCH, &queue).header("Content-Type", PATCH_TYPE).body(operations.to_string())
}

async fn parameters(tenant: &Tenant, count: usize) -> RequestBuilder {
    tenant.get(&format!("/v2/queues/q/messages?{}", vec!["ids=a"; count].join("&")))
}

async fn commas(tenant: &Tenant, count: usize) -> RequestBuilder {
    tenant.get("/v2/queues").header("Accept", ",".repeat(count))
}

async fn messages(tenant: &Tenant, count: usize) -> RequestBuilder {
    tenant.post("/v2/queues/q/messages", &json!({ "messages": vec![json!({"body": []}); count] }))
}

/// Nested as deeply as the parser allows, often.
async fn arrays(tenant: &Tenant, count: usize) -> RequestBuilder {
    let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let body = format!("{{\"messages\": [{{\"body\": [{}]}}]}}", vec![nested; count].join(","));
    tenant.request(Method::POST, "/v2/queues/q/messages").header("Content-Type", "application/json").body(body)
}

/// Processor time that a process has used, in nanoseconds.
fn processor_ns(process: u32) -> f64 {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let ns = |stat: String| stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or_default();
    threads.filter_map(|thread| fs::read_to_string(thread.unwrap().path().join("schedstat")).ok()).map(ns).sum()
}

/// What a request of a size costs the server, each of which must be answered with that status.
macro_rules! cost {
    ($tenant:expr, $request:ident, $size:expr, $status:expr) => {{
        let mut cost = f64::INFINITY;
        for _ in 0..REQUESTS {
            let request = $request($tenant, $size).await;
            let before = processor_ns($tenant.stage.sukkal.id());
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status(), $status);
            answer.bytes().await.unwrap();
            cost = cost.min(processor_ns($tenant.stage.sukkal.id()) - before);
        }
        cost
    }};
}

macro_rules! assert_linear {
    ($tenant:expr, $request:ident, $largest:expr, $status:expr) => {
        let (small, large) =
            (cost!($tenant, $request, $largest / FACTOR, $status), cost!($tenant, $request, $largest, $status));
        assert!(large < RATIO_MAX * small, "{}: {small} ns and {large} ns", stringify!($request));
    };
}

#[tokio::test]
async fn processor_time_grows_with_the_size_of_the_input_and_not_with_its_square() {
    let stage = Arc::new(Stage::start(&[]));
    let tenant = &Tenant::of(&stage, "cost");

    assert_linear!(tenant, removals, 1_500, 200);
    assert_linear!(tenant, parameters, 1_300, 400);
    assert_linear!(tenant, commas, 60_000, 406);
    assert_linear!(tenant, messages, 1_000, 201);
    assert_linear!(tenant, arrays, 1_000, 201);
}
