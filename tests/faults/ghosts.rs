//! Ghosts: clients that wait for messages and are gone when some come. Nothing is taken for them, or it goes back at
//! once, as it was; unless the answer had been written by then, which a ghost knows, since it still listens. Each message
//! is picked up once, however often it goes back.
//!
//! `SUKKAL_GHOSTS` is how many there are for each store, `SUKKAL_SEED` repeats their choices (not their timing).

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use sukkal::storage::embedded::EmbeddedStore;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, timeout};

use crate::support::chronicle::choices::{self, Choices};
use crate::support::exposition::Exposition;
use crate::support::ground::Ground;
use crate::support::redis::RedisServer;
use crate::support::sukkal::{Api, CLIENT};

const PROJECT: &str = "ghosts";
const LANES: usize = 16;
const ROLE: u64 = 0x6057;
/// When ghosts go, around the moment of the post.
const SPREAD_US: u64 = 4_000;
/// Far beyond what has to happen at once.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_for_a_ghost_goes_back() {
    let redis = RedisServer::start();

    haunt("redis", &Ground::redis(&redis.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_comes_for_a_ghost_goes_back_to_an_embedded_store() {
    haunt("memory", &Ground::Embedded(EmbeddedStore::in_memory().unwrap())).await;
}

/// How it ended for one ghost.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    /// It was not answered, and its message was free again after so long.
    NotAnswered(Duration),
    /// Its answer had been written.
    Answered,
}

async fn haunt(name: &str, ground: &Ground) {
    let wanted: usize = std::env::var("SUKKAL_GHOSTS").ok().map_or(600, |count| count.parse().expect("a number"));
    let seed = choices::seed();
    let server = ground.serve(&[]);
    let address: SocketAddr = server.url("").trim_start_matches("http://").parse().unwrap();
    let mut lanes = JoinSet::new();
    for number in 0..LANES {
        let lane = Lane {
            api: server.project(PROJECT),
            address,
            queue: format!("q{number}"),
            choices: Choices::of(seed, ROLE, number),
        };
        lanes.spawn(lane.run(wanted / LANES));
    }
    let mut ends = lanes.join_all().await.concat();
    ends.sort_unstable();
    let messages = f64::from(u32::try_from(ends.len()).unwrap());
    let picked_up = || async { Exposition::of(&server.url("")).await.value("sukkal_pickup_delay_seconds_count") };
    // It is noted when an answer is written, and so a moment after somebody may have read it.
    let noted = async {
        while picked_up().await != Some(messages) {
            yield_now().await;
        }
    };
    assert!(timeout(PATIENCE, noted).await.is_ok(), "{:?} pick-ups of {messages} messages", picked_up().await);
    let back: Vec<Duration> =
        ends.iter().filter_map(|end| if let End::NotAnswered(after) = end { Some(*after) } else { None }).collect();
    assert!(back.len() > ends.len() / 4, "most ghosts were answered: {} of {}", ends.len() - back.len(), ends.len());
    println!(
        "{name}: {} ghosts, {} answered before they went; of the others' messages all came back, half in {:?}, 99 % in \
         {:?}, all in {:?}; seed {seed}",
        ends.len(),
        ends.len() - back.len(),
        back[back.len() / 2],
        back[back.len() * 99 / 100],
        back[back.len() - 1],
    );
}

/// A queue on which one ghost follows the other.
struct Lane {
    api: Api,
    address: SocketAddr,
    queue: String,
    choices: Choices,
}

impl Lane {
    async fn run(mut self, ghosts: usize) -> Vec<End> {
        // Where it is bounded it is counted how often a message is given out.
        let metadata = json!({ "_dead_letter_queue": "dead", "_max_claim_count": 1000 });
        let created = self.api.put(&format!("/v2/queues/{}", self.queue)).json(&metadata).send().await.unwrap();
        assert_eq!(created.status(), 201);
        let mut ends = Vec::with_capacity(ghosts);
        for _ in 0..ghosts {
            let pops = self.choices.one_in(2);
            ends.push(self.one_ghost(pops).await);
        }
        ends
    }

    async fn one_ghost(&mut self, pops: bool) -> End {
        let mut ghost = TcpStream::connect(self.address).await.unwrap();
        ghost.set_nodelay(true).unwrap();
        ghost.write_all(self.request(pops).as_bytes()).await.unwrap();
        let (goes, posts) = (self.moment(), self.moment());
        let post = async {
            sleep(posts).await;
            let message = json!({ "messages": [{ "ttl": 300, "body": "for whom it may concern" }] });
            let posted = self.api.post(&format!("/v2/queues/{}/messages", self.queue), &message).send().await.unwrap();
            let receipt: Value = posted.json().await.unwrap();
            let href = receipt["resources"][0].as_str().unwrap();
            (href.rsplit('/').next().unwrap().to_owned(), Instant::now())
        };
        let go = async {
            sleep(goes).await;
            ghost.shutdown().await.unwrap();
            let mut heard = Vec::new();
            let _cut_off = timeout(PATIENCE, ghost.read_to_end(&mut heard)).await.expect("the server hangs up too");
            (heard, Instant::now())
        };
        let ((id, posted), (heard, gone)) = tokio::join!(post, go);

        if let Some(answer) = whole_answer(&heard) {
            self.clear_up_after(&answer, &id, pops).await;
            return End::Answered;
        }
        let back = self.pop().await;
        let message = &back["messages"][0];
        assert_eq!((&message["id"], &message["claim_count"]), (&json!(id), &json!(0)), "heard {heard:?}");
        assert_eq!(message["ttl"], 300);
        End::NotAnswered(posted.max(gone).elapsed())
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
            "{method} {path} HTTP/1.1\r\nHost: h\r\nClient-ID: {CLIENT}\r\nX-Project-ID: {PROJECT}\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
    }

    /// What somebody gets who waits for the message and lives.
    async fn pop(&self) -> Value {
        let path = format!("/v2/queues/{}/messages?pop=2&wait=20", self.queue);
        let answer = self.api.delete(&path).send().await.unwrap();
        let answer: Value = answer.json().await.unwrap();
        assert_eq!(answer["messages"].as_array().unwrap().len(), 1, "the message comes back, once");
        answer
    }

    /// The ghost had its message: nobody else has it.
    async fn clear_up_after(&self, answer: &Value, id: &str, pops: bool) {
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
            assert_eq!(self.api.delete(href).send().await.unwrap().status(), 204);
        }
    }

    fn moment(&mut self) -> Duration {
        Duration::from_micros(self.choices.within(0..=SPREAD_US))
    }
}

/// The document of an answer that is there to its last byte.
fn whole_answer(heard: &[u8]) -> Option<Value> {
    let end = heard.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&heard[..end]).ok()?.to_ascii_lowercase();
    assert!(text.starts_with("http/1.1 20"), "{text}");
    let length: usize = text.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
    serde_json::from_slice(heard.get(end..end + length)?).ok()
}
