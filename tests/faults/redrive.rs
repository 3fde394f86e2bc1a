//! Many dead letters are redriven while workers claim and two processes are killed: each message is
//! processed exactly once.
//!
//! `SUKKAL_REDRIVEN` sets the number of dead letters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::http::{PATCH_TYPE, answered, send, total};
use support::sukkal::Api;
use support::test_bed::{Home, Server, TestBed, queue_id};
use support::{campaign, campaigns, report};

const PROJECT: &str = "campaign";
const ORIGINS: usize = 4;
const MESSAGES: usize = 2_000;
const MESSAGES_PER_POST: usize = 1_000;
const NO_JANITOR: [(&str, &str); 1] = [("SUKKAL_JANITOR__PAUSE", "86400")];
const BUSY_JANITOR: [(&str, &str); 3] = [
    ("SUKKAL_JANITOR__PAUSE", "1"),
    ("SUKKAL_JANITOR__WALK", "1"),
    ("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_CLAIM_OR_POP", "1000"),
];
/// Longer than the lease of a task.
const LEASE_OVER_US: i64 = 11_000_000;

campaigns! {
    each_dead_letter_is_processed_once_over_redis: run("redis", &Home::redis());
    each_dead_letter_is_processed_once_in_an_embedded_store: run("embedded", &Home::file());
}

async fn run(name: &str, home: &Home) {
    let bed = home.bed();
    let end_janitor_lease = || {
        if let Home::Redis(redis) = home {
            redis.command(&["DEL", "sukkal:{janitor}"]);
        }
    };
    let count = campaign::size("SUKKAL_REDRIVEN", MESSAGES);
    let mut preparing = bed.serve(&BUSY_JANITOR);
    prepare(&preparing.project(PROJECT), count).await;
    preparing.kill();
    end_janitor_lease();
    // The workers use a process that is not killed, so that they know what they have deleted.
    let steady = bed.serve(&NO_JANITOR);
    let api = steady.project(PROJECT);

    let began = Instant::now();
    let mut first = bed.serve(&NO_JANITOR);
    let path = start(&first.project(PROJECT)).await;
    let (redriven, finished) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let from_origins = (0..ORIGINS).map(|origin| {
        let (api, finished) = (api.clone(), finished.clone());
        tokio::spawn(async move { work(&api, &origin_name(origin), &finished, 0).await })
    });
    let from_dead = (0..2).map(|_| {
        let (api, redriven) = (api.clone(), redriven.clone());
        tokio::spawn(async move { work(&api, "dead", &redriven, 2).await })
    });
    let workers: Vec<_> = from_origins.chain(from_dead).collect();
    kill_after(&api, &path, &mut first, count / 4).await;
    end_task_lease(&bed, 1).await;
    end_janitor_lease();
    let mut second = bed.serve(&BUSY_JANITOR);
    kill_after(&api, &path, &mut second, count / 2).await;
    end_task_lease(&bed, 2).await;
    end_janitor_lease();
    let third = bed.serve(&BUSY_JANITOR);
    while task(&api, &path).await["state"] == "running" {
        sleep(Duration::from_millis(20)).await;
    }
    let (task, took) = (task(&api, &path).await, began.elapsed());
    assert_eq!(task["state"], "done", "{task}");
    redriven.store(true, Ordering::SeqCst);
    while total(&api, "dead").await > 0 {
        sleep(Duration::from_millis(20)).await;
    }
    finished.store(true, Ordering::SeqCst);

    let mut processed: Vec<usize> = Vec::new();
    for worker in workers {
        processed.extend(worker.await.unwrap());
    }
    drop(third);
    processed.sort_unstable();
    assert_eq!(processed.len(), count, "{task}");
    assert_eq!(processed, (0..count).collect::<Vec<_>>());
    report::checked("redrive", name, count, format!("in {took:?} with two killed processes, {task}"));
}

fn origin_name(number: usize) -> String {
    format!("work-{number}")
}

/// Makes dead letters of several queues, and then lets these queues deliver messages.
async fn prepare(api: &Api, count: usize) {
    for origin in 0..ORIGINS {
        let path = format!("/v2/queues/{}", origin_name(origin));
        let keys = json!({ "_max_claim_count": 1, "_dead_letter_queue": "dead" });
        answered(api.put(&path).json(&keys), 201).await;
        let numbers: Vec<usize> = (origin..count).step_by(ORIGINS).collect();
        for numbers in numbers.chunks(MESSAGES_PER_POST) {
            let messages: Vec<Value> = numbers.iter().map(|number| json!({ "body": number, "ttl": 86_400 })).collect();
            answered(api.post(&format!("{path}/messages"), &json!({ "messages": messages })), 201).await;
        }
        deliver_once(api, &path, numbers.len()).await;
        while total(api, &origin_name(origin)).await > 0 {
            answered(api.post(&format!("{path}/claims?limit=1000"), &json!({})), 204).await;
        }
        let deliver = json!([{ "op": "remove", "path": "/metadata/_max_claim_count" }]);
        let patched = api.request(reqwest::Method::PATCH, &path);
        let patched = patched.header("Content-Type", PATCH_TYPE);
        answered(patched.body(deliver.to_string()), 200).await;
    }
    while total(api, "dead").await < count as u64 {
        // The janitor forwards those that the claims have left.
        sleep(Duration::from_millis(20)).await;
    }
}

/// Claims this number of messages, and then releases the claims.
async fn deliver_once(api: &Api, queue: &str, count: usize) {
    let (mut claims, mut delivered) = (Vec::new(), 0);
    while delivered < count {
        let claimed = answered(api.post(&format!("{queue}/claims?limit=1000"), &json!({})), 201).await;
        claims.push(claimed.header("location").unwrap().to_owned());
        delivered += claimed.json()["messages"].as_array().unwrap().len();
    }
    for claim in claims {
        answered(api.delete(&claim), 204).await;
    }
}

/// Starts a redrive of all dead letters, and returns the path of its task.
async fn start(api: &Api) -> String {
    let started = answered(api.post("/v2/queues/dead/redrive", &json!({})), 202).await;
    started.header("location").unwrap().to_owned()
}

async fn task(api: &Api, path: &str) -> Value {
    answered(api.get(path), 200).await.json()
}

/// Kills a process when the task has moved or skipped this number of messages.
async fn kill_after(api: &Api, path: &str, server: &mut Server, count: usize) {
    loop {
        let task = task(api, path).await;
        let passed = task["moved"].as_u64().unwrap() + task["skipped"].as_u64().unwrap();
        if passed >= count as u64 || task["state"] != "running" {
            break;
        }
        sleep(Duration::from_millis(1)).await;
    }
    server.kill();
}

/// Lets the lease of the task expire, for the `number`-th time.
async fn end_task_lease(bed: &TestBed, number: i64) {
    // A step that the killed process has begun must not renew the lease by the new clock.
    bed.store().probe().await.unwrap();
    bed.set_clock(&queue_id(PROJECT, "dead"), number * LEASE_OVER_US).await;
}

/// Claims and deletes the messages of a queue until it is told to stop, and the queue is empty.
/// Returns their bodies. Meanwhile it returns every `returned`-th claim.
async fn work(api: &Api, queue: &str, stop: &AtomicBool, returned: usize) -> Vec<usize> {
    let (mut processed, mut claims) = (Vec::new(), 0);
    loop {
        let is_last = stop.load(Ordering::SeqCst);
        let claim = send(api.post(&format!("/v2/queues/{queue}/claims?limit=20"), &json!({}))).await;
        if claim.status == 204 {
            if is_last && total(api, queue).await == 0 {
                return processed;
            }
            sleep(Duration::from_millis(5)).await;
            continue;
        }
        assert_eq!(claim.status, 201, "{claim:?}");
        claims += 1;
        if !is_last && returned > 0 && claims % returned == 0 {
            answered(api.delete(claim.header("location").unwrap()), 204).await;
            continue;
        }
        for message in claim.json()["messages"].as_array().unwrap() {
            // The claim holds the message.
            answered(api.delete(message["href"].as_str().unwrap()), 204).await;
            processed.push(usize::try_from(message["body"].as_u64().unwrap()).unwrap());
        }
    }
}
