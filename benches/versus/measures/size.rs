//! Compares the same requests in a queue of 1,000 messages and in one of millions. The number of
//! requests is limited, so that the small queue stays small.

use futures::future::join_all;
use serde_json::json;
use sukkal_domain::Metadata;
use sukkal_storage::QueueStore;
use tokio::time::Instant;

use super::{Pace, SMALL};
use crate::processes;
use crate::versus::contestants::Contestant;
use crate::versus::direct::outcome;
use crate::versus::fill;
use crate::versus::results::Measure;
use support::sukkal::Api;

pub(crate) const FEW: &str = "1 000 messages";
pub(crate) const MANY: &str = "the large queue";
/// The kinds of requests, each with the columns for processor time and mean latency. The processor
/// time of service and Redis does not depend on the load of the machine.
pub(crate) const COLUMNS: [(&str, &str, &str); 3] = [
    ("post", "post µs", "post ms"),
    ("list", "list µs", "list ms"),
    ("claim", "claim + release µs", "claim + release ms"),
];
const SMALL_QUEUE: usize = 1000;
/// The number of pages in the first thousand messages.
const PAGES: usize = SMALL_QUEUE / 20 - 1;
const TASKS: usize = 16;
const REQUESTS: usize = 1600;

pub(super) async fn of_the_queue(pace: Pace) -> Measure {
    let sukkal = Contestant::sukkal_over_redis();
    let store = sukkal.driver.as_ref().expect("the store can be reached directly");
    sukkal.reset(1).await;
    fill::fill(store, "large", pace.large, SMALL).await;
    let title = format!(
        "A queue of {} messages of 100 B against one of 1 000, Sukkal: CPU time of service and Redis per request, and \
         mean latency with {TASKS} clients",
        crate::versus::results::shown(pace.large as f64)
    );
    let mut measure = Measure::new("size", title);
    for round in 0..pace.rounds {
        let small = format!("small-{round}");
        store.create_queue(&fill::queue(&small), &Metadata::default()).await.unwrap();
        fill::fill(store, &small, SMALL_QUEUE, SMALL).await;
        let (mut few, mut many) = (Vec::new(), Vec::new());
        // Posts come last, so that the queue is still small for the other requests.
        for (kind, cpu, latency) in COLUMNS.into_iter().rev() {
            for (queue, sample) in [(small.as_str(), &mut few), ("large", &mut many)] {
                let (cpu_us, mean_ms) = measure_one(&sukkal, queue, kind).await;
                sample.splice(0..0, [(cpu, cpu_us), (latency, mean_ms)]);
            }
        }
        measure.add(FEW, few);
        measure.add(MANY, many);
    }
    measure
}

/// Returns the processor time (µs) and the latency (ms) of a request.
async fn measure_one(sukkal: &Contestant, queue: &str, kind: &'static str) -> (f64, f64) {
    let all = [sukkal.service.clone(), sukkal.store.processes()].concat();
    let api = sukkal.api();
    let markers = if kind == "list" { fill::markers(&api, queue, PAGES).await } else { Vec::new() };
    let before_s = processes::cpu_s(&all);
    let start = Instant::now();
    let tasks = (0..TASKS).map(|task| {
        let (api, path, markers) = (api.clone(), format!("/v2/queues/{queue}"), markers.clone());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for number in (task..REQUESTS).step_by(TASKS) {
                let start = Instant::now();
                request(&api, &path, kind, markers.get(number % markers.len().max(1))).await;
                taken.push(start.elapsed().as_secs_f64() * 1000.0);
            }
            taken
        })
    });
    let taken_ms = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    let outcome = outcome(taken_ms, start.elapsed().as_secs_f64());
    let cpu_us = (processes::cpu_s(&all) - before_s) * 1e6 / outcome.requests;
    (cpu_us, outcome.mean_ms)
}

/// Sends a request. A claim is released, so that the next claim finds the same number of messages.
async fn request(api: &Api, path: &str, kind: &str, marker: Option<&String>) {
    let request = match kind {
        "post" => {
            api.post(&format!("{path}/messages"), &json!({"messages": [{"ttl": 3600, "body": "x".repeat(SMALL)}]}))
        }
        "list" => api.get(&format!("{path}/messages?echo=true&limit=10&marker={}", marker.expect("there are some"))),
        _ => api.post(&format!("{path}/claims?limit=10"), &json!({"ttl": 300, "grace": 60})),
    };
    let reply = request.send().await.unwrap();
    assert!(reply.status() == 201 || reply.status() == 200, "{kind}: {}", reply.status());
    let location = reply.headers().get("location").map(|location| location.to_str().unwrap().to_owned());
    let _read = reply.bytes().await.unwrap();
    if kind == "claim" {
        let released = api.delete(&location.expect("a claim has a location")).send().await.unwrap();
        assert_eq!(released.status(), 204);
    }
}
