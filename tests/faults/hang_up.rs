//! Clients that hang up, at any byte and at any time: what they asked for is done whole, or not at all.

use std::collections::{BTreeSet, HashMap};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::dice::Dice;
use super::gate::Gate;
use super::half_done::NO_JANITOR;
use super::stored::Stored;
use crate::support::redis::{RedisServer, poll_until};
use crate::support::sukkal::{Api, CLIENT, Sukkal};

const PROJECT: &str = "hang-up";
const CLIENTS: u64 = 4;
const REQUESTS: usize = 150;
const QUEUES: usize = 5;
const BATCH: usize = 5;
/// How the names begin that are used only once.
const NEW: &str = "new-";

#[tokio::test]
async fn clients_that_hang_up_leave_no_half_done_work() {
    let redis = RedisServer::start();
    let stored = Stored { redis: &redis, project: PROJECT };
    let mut sukkal = Sukkal::start_with(&redis.url(), &[NO_JANITOR]);
    let url = sukkal.url("");
    let address = url.trim_start_matches("http://");

    thread::scope(|threads| {
        for seed in 0..CLIENTS {
            threads.spawn(move || hang_up_again_and_again(address, seed));
        }
    });
    // What is still under way is finished first.
    sukkal.terminate();
    assert_eq!(sukkal.wait().code(), Some(0));

    let queues = stored.queues();
    assert!(!queues.is_empty(), "nothing was done at all");
    assert!(queues.is_subset(&stored.registered()), "unlisted: {queues:?}");
    stored.no_queue_is_half_there();
    let new = |names: BTreeSet<String>| names.into_iter().filter(|name| name.starts_with(NEW)).collect::<Vec<_>>();
    assert!(!new(queues.clone()).is_empty(), "nothing was created");
    assert_eq!(new(stored.registered()), new(queues.clone()), "a creation has stopped half-way");
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_JANITOR__PAUSE", "1"), ("SUKKAL_JANITOR__WALK", "1")]);
    let api = sukkal.project(PROJECT);
    let mut batches = 0;
    for queue in &queues {
        let bodies = bodies(&api, queue).await;
        assert_eq!(i64::try_from(bodies.len()).unwrap(), stored.messages(queue), "{queue}");
        batches += whole_batches(&bodies);
    }
    assert!(batches > 0, "no batch has arrived");

    assert_eq!(listed(&api).await, Vec::from_iter(queues.clone()));
    poll_until("the register names just the queues that exist", || stored.registered() == queues);
    for queue in &queues {
        assert_eq!(api.delete(&format!("/v2/queues/{queue}")).send().await.unwrap().status(), 204);
    }
    // A name that was registered twice at once is left to the janitor.
    poll_until("the register is empty", || stored.registered().is_empty());
    stored.no_queue_is_left();
}

#[test]
fn what_has_begun_goes_on_without_its_client() {
    let redis = RedisServer::start();
    let gate = Gate::start(redis.port(), PROJECT);
    let sukkal = Sukkal::start_with(&gate.url(), &[NO_JANITOR]);
    let url = sukkal.url("");
    let address = url.trim_start_matches("http://");
    let stored = Stored { redis: &redis, project: PROJECT };
    // Nothing has to be sent twice because Redis does not know it.
    answered(address, &request("PUT", "/v2/queues/warm", ""));
    answered(address, &request("DELETE", "/v2/queues/warm", ""));

    // Four commands create a queue, two delete it.
    for steps in 0..4 {
        hang_up_after(&gate, steps, address, &request("PUT", "/v2/queues/q", ""));
        poll_until("the queue is there and listed", || stored.queues().len() + stored.registered().len() == 2);

        hang_up_after(&gate, steps % 2, address, &request("DELETE", "/v2/queues/q", ""));
        poll_until("the queue is gone and not listed", || stored.queues().len() + stored.registered().len() == 0);
    }
}

/// Hangs up when the server has sent the store so many commands for the request.
fn hang_up_after(gate: &Gate, steps: usize, address: &str, request: &str) {
    gate.hold_after(steps);
    let mut stream = TcpStream::connect(address).expect("the server takes connections");
    stream.write_all(request.as_bytes()).expect("the server reads");
    poll_until("the request is half-way", || gate.has_happened());
    stream.shutdown(Shutdown::Write).expect("the connection is open");
    // The server has seen that when it closes its side; the handler is gone then.
    let answer = stream.read_to_end(&mut Vec::new()).expect("the server closes");
    assert_eq!(answer, 0, "nobody waits for an answer");
    gate.release();
}

fn answered(address: &str, request: &str) {
    let mut stream = TcpStream::connect(address).expect("the server takes connections");
    stream.write_all(request.as_bytes()).expect("the server reads");
    let mut status = [0; 10];
    stream.read_exact(&mut status).expect("the server answers");
    assert_eq!(&status, b"HTTP/1.1 2");
}

fn hang_up_again_and_again(address: &str, seed: u64) {
    let mut dice = Dice::new(seed);
    for number in 0..REQUESTS {
        let queue = format!("q{}", dice.roll(QUEUES));
        let request = match dice.roll(10) {
            0..7 => {
                let batch = format!("{seed}/{number}");
                let messages: Vec<_> = (0..BATCH).map(|part| json!({ "body": [batch, part] })).collect();
                request("POST", &format!("/v2/queues/{queue}/messages"), &json!({ "messages": messages }).to_string())
            }
            7..9 => request("PUT", &format!("/v2/queues/{NEW}{seed}-{number}"), r#"{"colour":"red"}"#),
            _ => request("DELETE", &format!("/v2/queues/{queue}"), ""),
        };
        let mut stream = TcpStream::connect(address).expect("the server takes connections");
        stream.set_nodelay(true).expect("an open socket has the option");
        match dice.roll(3) {
            0 => stream.write_all(&request.as_bytes()[..dice.roll(request.len())]).expect("the server reads"),
            1 => {
                stream.write_all(request.as_bytes()).expect("the server reads");
                wait(Duration::from_micros(dice.roll(3000) as u64));
            }
            _ => {
                stream.write_all(request.as_bytes()).expect("the server reads");
                let mut some_of_the_answer = vec![0; 1 + dice.roll(100)];
                stream.read_exact(&mut some_of_the_answer).expect("the server answers");
            }
        }
    }
}

fn request(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Spins: a sleep lasts too long for this.
fn wait(duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        thread::yield_now();
    }
}

/// The names of all queues, page by page.
async fn listed(api: &Api) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    loop {
        let marker = names.last().map(|name| format!("&marker={name}")).unwrap_or_default();
        let response = api.get(&format!("/v2/queues?limit=20{marker}")).send().await.unwrap();
        let page: Value = response.json().await.unwrap();
        let page = page["queues"].as_array().expect("a page lists queues");
        if page.is_empty() {
            return names;
        }
        names.extend(page.iter().map(|queue| queue["name"].as_str().expect("a queue has a name").to_owned()));
    }
}

async fn bodies(api: &Api, queue: &str) -> Vec<Value> {
    let feed = super::lost_replies::feed(api, &format!("/v2/queues/{queue}/messages")).await;
    feed.into_iter().map(|(_, body)| body).collect()
}

/// Checks that each batch is there from its first message to its last, side by side, once.
fn whole_batches(bodies: &[Value]) -> usize {
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
