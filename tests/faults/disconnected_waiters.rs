//! Clients that wait for messages and disconnect when some arrive. A disconnected client takes no
//! message, or its message is returned at once and unchanged. The exception is a response that was
//! already written; the client detects it, because it still reads. The pick-up delay of each
//! message is recorded once, however often the message is returned.
//!
//! `SUKKAL_GHOSTS` sets the number of such clients for each store. `SUKKAL_SEED` repeats their
//! choices, but not their timing.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use crate::http::answered;
use support::exposition::Exposition;
use support::random::{self, Random};
use support::sukkal::{Api, CLIENT};
use support::test_bed::Home;
use support::{campaign, campaigns, report};

const PROJECT: &str = "ghosts";
const TEST_QUEUES: usize = 16;
/// Number of clients of the short form.
const CLIENTS: usize = 600;
const ROLE: u64 = 0x6057;
/// Period around the post in which clients disconnect, in microseconds.
const SPREAD_US: u64 = 4_000;
/// Much longer than events that should happen at once may take.
const TIMEOUT: Duration = Duration::from_secs(20);

campaigns! {
    messages_of_a_disconnected_client_are_returned:
        check_disconnecting_clients("redis", &Home::redis());
    messages_of_a_disconnected_client_are_returned_to_an_embedded_store:
        check_disconnecting_clients("memory", &Home::memory());
}

/// The outcome for one disconnected client.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It got no response, and its message was available again after this time.
    NoResponse(Duration),
    /// Its response had been written.
    Responded,
}

async fn check_disconnecting_clients(name: &str, home: &Home) {
    let wanted = campaign::size("SUKKAL_GHOSTS", CLIENTS);
    let seed = random::seed();
    let server = home.bed().serve(&[]);
    let address: SocketAddr = server.url("").trim_start_matches("http://").parse().unwrap();
    let mut test_queues = JoinSet::new();
    for number in 0..TEST_QUEUES {
        let test_queue = TestQueue {
            api: server.project(PROJECT),
            address,
            queue: format!("q{number}"),
            random: Random::new(seed, ROLE, number),
        };
        test_queues.spawn(test_queue.run(wanted / TEST_QUEUES));
    }
    let mut outcomes = test_queues.join_all().await.concat();
    outcomes.sort_unstable();
    let messages = f64::from(u32::try_from(outcomes.len()).unwrap());
    let recorded_pick_ups =
        || async { Exposition::of(&server.url("")).await.value("sukkal_pickup_delay_seconds_count") };
    // The delay is recorded after the response is written, so a client may have read the response a
    // moment earlier.
    let all_recorded = async {
        while recorded_pick_ups().await != Some(messages) {
            yield_now().await;
        }
    };
    assert!(
        timeout(TIMEOUT, all_recorded).await.is_ok(),
        "{:?} pick-ups of {messages} messages",
        recorded_pick_ups().await
    );
    let return_times: Vec<Duration> = outcomes
        .iter()
        .filter_map(|outcome| if let Outcome::NoResponse(after) = outcome { Some(*after) } else { None })
        .collect();
    assert!(
        return_times.len() > outcomes.len() / 4,
        "most clients got responses: {} of {}",
        outcomes.len() - return_times.len(),
        outcomes.len()
    );
    let details = format!(
        "{} clients got responses before they disconnected; the other messages were returned, half in {:?}, 99 % in \
         {:?}, all in {:?}; seed {seed}",
        outcomes.len() - return_times.len(),
        return_times[return_times.len() / 2],
        return_times[return_times.len() * 99 / 100],
        return_times[return_times.len() - 1],
    );
    report::checked("disconnected_waiters", name, outcomes.len(), details);
}

/// A queue with sequential disconnecting clients.
struct TestQueue {
    api: Api,
    address: SocketAddr,
    queue: String,
    random: Random,
}

impl TestQueue {
    async fn run(mut self, count: usize) -> Vec<Outcome> {
        // With such a limit, the store counts the deliveries of a message.
        let metadata = json!({ "_dead_letter_queue": "dead", "_max_claim_count": 1000 });
        answered(self.api.put(&format!("/v2/queues/{}", self.queue)).json(&metadata), 201).await;
        let mut outcomes = Vec::with_capacity(count);
        for _ in 0..count {
            let pops = self.random.one_in(2);
            outcomes.push(self.run_client(pops).await);
        }
        outcomes
    }

    async fn run_client(&mut self, pops: bool) -> Outcome {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream.write_all(self.request(pops).as_bytes()).await.unwrap();
        let (disconnect_after, post_after) = (self.random_delay(), self.random_delay());
        let post = async {
            sleep(post_after).await;
            let message = json!({ "messages": [{ "ttl": 300, "body": "for any waiter" }] });
            let posted = self.api.post(&format!("/v2/queues/{}/messages", self.queue), &message).send().await.unwrap();
            let receipt: Value = posted.json().await.unwrap();
            let href = receipt["resources"][0].as_str().unwrap();
            (href.rsplit('/').next().unwrap().to_owned(), Instant::now())
        };
        let disconnect = async {
            sleep(disconnect_after).await;
            stream.shutdown().await.unwrap();
            let mut received = Vec::new();
            let _result =
                timeout(TIMEOUT, stream.read_to_end(&mut received)).await.expect("the server closes its side too");
            (received, Instant::now())
        };
        let ((id, posted), (received, disconnected)) = tokio::join!(post, disconnect);

        if let Some(answer) = complete_response(&received) {
            self.delete_received_message(&answer, &id, pops).await;
            return Outcome::Responded;
        }
        let popped = self.pop().await;
        let message = &popped["messages"][0];
        assert_eq!((&message["id"], &message["claim_count"]), (&json!(id), &json!(0)), "heard {received:?}");
        assert_eq!(message["ttl"], 300);
        Outcome::NoResponse(posted.max(disconnected).elapsed())
    }

    fn request(&self, pops: bool) -> String {
        let (method, path) = if pops {
            ("DELETE", format!("/v2/queues/{}/messages?pop=1&wait=20", self.queue))
        } else {
            ("POST", format!("/v2/queues/{}/claims?limit=1&wait=20", self.queue))
        };
        let body = if pops { "" } else { r#"{"ttl":60,"grace":60}"# };
        let length = body.len();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    }

    /// Returns the message that a connected waiter receives.
    async fn pop(&self) -> Value {
        let path = format!("/v2/queues/{}/messages?pop=2&wait=20", self.queue);
        let answer = self.api.delete(&path).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["messages"].as_array().unwrap().len(), 1, "the message comes back, once");
        answer
    }

    /// The disconnected client had received its message: no other client gets it.
    async fn delete_received_message(&self, answer: &Value, id: &str, pops: bool) {
        assert_eq!(answer["messages"][0]["id"], id);
        let stats = self.api.get(&format!("/v2/queues/{}/stats", self.queue)).send().await.unwrap();
        let stats: Value = stats.json().await.unwrap();
        let expected = if pops { (0, 0) } else { (1, 1) };
        assert_eq!(
            (&stats["messages"]["total"], &stats["messages"]["claimed"]),
            (&json!(expected.0), &json!(expected.1))
        );
        if !pops {
            let href = answer["messages"][0]["href"].as_str().unwrap();
            answered(self.api.delete(href), 204).await;
        }
    }

    fn random_delay(&mut self) -> Duration {
        Duration::from_micros(self.random.within(0..=SPREAD_US))
    }
}

/// Returns the body of a response that is complete.
fn complete_response(received: &[u8]) -> Option<Value> {
    let body_start = received.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&received[..body_start]).ok()?.to_ascii_lowercase();
    assert!(text.starts_with("http/1.1 20"), "{text}");
    let length: usize = text.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    serde_json::from_slice(received.get(body_start..body_start + length)?).ok()
}
