//! Clients that disconnect at any byte and at any time: their requests are executed completely or
//! not at all.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use socket2::SockRef;

use super::gate::Gate;
use super::stored::Stored;
use crate::http::{answered, feed, follow, pick};
use support::random::Random;
use support::redis::RedisServer;
use support::sukkal::{CLIENT, Sukkal};
use support::waiting::block_until;

const PROJECT: &str = "hang-up";
const CLIENTS: u64 = 4;
const REQUESTS: usize = 150;
const QUEUES: usize = 5;
const BATCH: usize = 5;
/// Prefix of the names that are used only once.
const NEW: &str = "new-";

#[tokio::test]
async fn disconnected_clients_leave_no_half_done_work() {
    let redis = RedisServer::start();
    let stored = Stored { redis: &redis, project: PROJECT };
    let mut sukkal = Sukkal::start_without_janitor(&redis, &redis.url(), &[]);
    let url = sukkal.url("");
    let address = url.trim_start_matches("http://");

    thread::scope(|threads| {
        for seed in 0..CLIENTS {
            threads.spawn(move || disconnect_repeatedly(address, seed));
        }
    });
    // Requests under way are finished first.
    sukkal.terminate();
    assert_eq!(sukkal.wait().code(), Some(0));

    let queues = stored.queues();
    assert!(!queues.is_empty(), "nothing was done at all");
    assert!(queues.is_subset(&stored.registered()), "unlisted: {queues:?}");
    stored.assert_no_partial_queue();
    let new = |names: BTreeSet<String>| names.into_iter().filter(|name| name.starts_with(NEW)).collect::<Vec<_>>();
    assert!(!new(queues.clone()).is_empty(), "nothing was created");
    assert_eq!(new(stored.registered()), new(queues.clone()), "a creation has stopped half-way");
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")]);
    let api = sukkal.project(PROJECT);
    let mut batches = 0;
    for queue in &queues {
        let bodies = feed(&api, queue, "&limit=20").await;
        assert_eq!(i64::try_from(bodies.len()).unwrap(), stored.messages(queue), "{queue}");
        batches += complete_batches(&bodies);
    }
    assert!(batches > 0, "no batch has arrived");

    let listed = follow(&api, "/v2/queues?limit=20", "queues").await;
    assert_eq!(pick(&listed.into(), "name"), Vec::from_iter(queues.clone()));
    block_until("the register names just the queues that exist", || stored.registered() == queues);
    for queue in &queues {
        answered(api.delete(&format!("/v2/queues/{queue}")), 204).await;
    }
    // A name that was registered twice at once is removed by the janitor.
    block_until("the register is empty", || stored.registered().is_empty());
    stored.assert_no_queue_left();
}

#[test]
fn a_started_request_continues_without_its_client() {
    let redis = RedisServer::start();
    let gate = Gate::start(redis.port(), PROJECT);
    let sukkal = Sukkal::start_without_janitor(&redis, &gate.url(), &[("SUKKAL_LOG__FILTER", "debug")]);
    let ends = || sukkal.log().iter().filter(|line| line.contains("connection ended early")).count();
    let url = sukkal.url("");
    let address = url.trim_start_matches("http://");
    let stored = Stored { redis: &redis, project: PROJECT };
    // After this, Redis knows the scripts, so no command has to be repeated.
    receives_success(address, &request("PUT", "/v2/queues/warm", ""));
    receives_success(address, &request("DELETE", "/v2/queues/warm", ""));

    // A queue is created with four commands, and deleted with two.
    for steps in 0..4 {
        disconnect_after(&gate, steps, address, &request("PUT", "/v2/queues/q", ""), ends);
        block_until("the queue is there and listed", || stored.queues().len() + stored.registered().len() == 2);

        disconnect_after(&gate, steps % 2, address, &request("DELETE", "/v2/queues/q", ""), ends);
        block_until("the queue is gone and not listed", || stored.queues().len() + stored.registered().len() == 0);
    }
}

/// Disconnects when the server has sent the store this many commands for the request.
fn disconnect_after(gate: &Gate, steps: usize, address: &str, request: &str, ends: impl Fn() -> usize) {
    let ends_before = ends();
    gate.hold_after(steps);
    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    stream.write_all(request.as_bytes()).expect("the server reads");
    block_until("the request is half-way", || gate.has_happened());
    SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("an open socket has the option");
    drop(stream);
    block_until("the handler has ended", || ends() > ends_before);
    gate.release();
}

fn receives_success(address: &str, request: &str) {
    let mut stream = TcpStream::connect(address).expect("the server accepts connections");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut status = [0; 10];
    stream.read_exact(&mut status).expect("the server answers");
    assert_eq!(&status, b"HTTP/1.1 2");
}

fn disconnect_repeatedly(address: &str, seed: u64) {
    let mut random = Random::new(seed, 0, 0);
    for number in 0..REQUESTS {
        let queue = format!("q{}", random.below(QUEUES));
        let request = match random.below(10) {
            0..7 => {
                let batch = format!("{seed}/{number}");
                let messages: Vec<_> = (0..BATCH).map(|part| json!({ "body": [batch, part] })).collect();
                request("POST", &format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }).to_string())
            }
            7..9 => request("PUT", &format!("/v2/queues/{NEW}{seed}-{number}"), r#"{"color":"red"}"#),
            _ => request("DELETE", &format!("/v2/queues/{queue}"), ""),
        };
        let mut stream = TcpStream::connect(address).expect("the server accepts connections");
        stream.set_nodelay(true).expect("an open socket has the option");
        match random.below(3) {
            0 => stream.write_all(&request.as_bytes()[..random.below(request.len())]).expect("the server reads"),
            1 => {
                stream.write_all(request.as_bytes()).expect("the server reads");
                wait(Duration::from_micros(random.below(3000) as u64));
            }
            _ => {
                stream.write_all(request.as_bytes()).expect("the server reads");
                let mut some_of_the_answer = vec![0; 1 + random.below(100)];
                stream.read_exact(&mut some_of_the_answer).expect("the server answers");
            }
        }
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Spins, because a sleep is too coarse for this.
fn wait(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        thread::yield_now();
    }
}

/// Checks that the messages of each batch are complete, adjacent and there once. Returns the number
/// of batches.
fn complete_batches(bodies: &[Value]) -> usize {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for messages in bodies.chunks(BATCH) {
        let batch = messages[0][0].as_str().expect("a batch has a name");
        let whole: Vec<_> = (0..BATCH).map(|part| json!([batch, part])).collect();
        assert_eq!(messages, whole);
        *seen.entry(batch.to_owned()).or_default() += 1;
    }
    assert!(seen.values().all(|times| *times == 1), "{seen:?}");
    seen.len()
}
