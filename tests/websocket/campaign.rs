//! Sockets come and go while messages are posted and processes are killed. A client that resumes
//! its subscription after the last message that it has received gets each message once, in the
//! order of the feed.
//!
//! `SUKKAL_SOCKETS` sets the number of messages. `SUKKAL_SEED` repeats the choices of a campaign,
//! but not its timing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sukkal_storage::embedded::EmbeddedStore;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::PATH;
use crate::http::{follow, pick};
use support::random::{self, Random};
use support::redis::RedisServer;
use support::socket::{Received, Socket};
use support::sukkal::Api;
use support::test_bed::{Server, ServerUrls, TestBed};
use support::{campaign, report};

const SERVERS: usize = 2;
const POSTERS: usize = 3;
const READERS: usize = 6;
/// Number of messages of the short form.
const MESSAGES: usize = 900;
/// Mean time between two kills.
const KILL_PAUSE: Duration = Duration::from_millis(400);
/// Maximum time for the readers to receive what was posted, after the last kill.
const PATIENCE: Duration = Duration::from_secs(60);
/// Options of a Redis that loses no acknowledged write when it is killed.
const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];
/// The roles of the actors that choose.
const POSTER: u64 = 1;
const READER: u64 = 2;

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_resume_miss_and_repeat_nothing_over_redis() {
    let redis = RedisServer::start_with(&DURABLE);
    run("redis", TestBed::redis(&redis.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_resume_miss_and_repeat_nothing_over_an_embedded_store() {
    run("memory", TestBed::Embedded(EmbeddedStore::in_memory().unwrap())).await;
}

async fn run(name: &str, store: TestBed) {
    let seed = random::seed();
    let count = campaign::size("SUKKAL_SOCKETS", MESSAGES);
    let mut servers: Vec<Server> = (0..SERVERS).map(|_| store.serve(&[])).collect();
    let urls = Arc::new(ServerUrls::of(&servers));
    let (done, all_posted) = watch::channel(None);
    let mut readers = JoinSet::new();
    for number in 0..READERS {
        readers.spawn(read(urls.clone(), Random::new(seed, READER, number), all_posted.clone()));
    }
    let mut posters = JoinSet::new();
    for number in 0..POSTERS {
        posters.spawn(post(urls.clone(), Random::new(seed, POSTER, number), number, count / POSTERS));
    }

    let mut kills = 0;
    while !posters.is_empty() {
        tokio::select! {
            posted = posters.join_next() => { posted.unwrap().unwrap(); }
            () = sleep(KILL_PAUSE) => {
                let store = store.clone();
                servers = urls.replace_one(servers, move || store.serve(&[])).await;
                kills += 1;
            }
        }
    }
    let feed = follow(&Api::new(servers[0].url(""), "p"), "/v2/queues/q/messages?echo=true&limit=20", "messages").await;
    let feed = pick(&feed.into(), "id");
    assert_eq!(feed.len(), count / POSTERS * POSTERS, "each message is posted once");
    done.send_replace(Some(feed.len()));
    let mut connections = 0;
    while let Some(reader) = timeout(PATIENCE, readers.join_next()).await.expect("the readers receive everything") {
        let (received, opened) = reader.unwrap();
        connections += opened;
        let first = received.iter().zip(&feed).position(|(got, expected)| got != expected);
        assert!(received == feed, "{} received, {} posted; they differ from {first:?} on", received.len(), feed.len());
    }
    let details = format!("{READERS} readers, {connections} connections, {kills} kills, seed {seed}");
    assert!(connections > 3 * READERS && kills > 0, "the campaign was not disturbed: {details}");
    report::checked("websocket", name, feed.len(), details);
}

/// Posts messages one after another, each until it is acknowledged.
async fn post(urls: Arc<ServerUrls>, mut random: Random, poster: usize, count: usize) {
    for number in 0..count {
        let body = json!({ "messages": [{ "body": format!("{poster}-{number}"), "ttl": 3600 }] });
        let start = Instant::now();
        loop {
            let api = Api::new(urls.choose(&mut random), "p");
            let request =
                api.post("/v2/queues/q/messages", &body).header("Idempotency-Key", format!("{poster}-{number}"));
            match request.timeout(Duration::from_secs(5)).send().await {
                Ok(response) if response.status() == 201 => break,
                outcome => assert!(start.elapsed() < PATIENCE, "{outcome:?}"),
            }
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_millis(random.within(0..=10))).await;
    }
}

/// Reads over one connection after another until all messages have arrived. Returns their ids, and
/// the number of connections.
async fn read(
    urls: Arc<ServerUrls>,
    mut random: Random,
    mut all_posted: watch::Receiver<Option<usize>>,
) -> (Vec<String>, usize) {
    let (mut ids, mut opened): (Vec<String>, usize) = (Vec::new(), 0);
    let is_complete = |ids: &Vec<String>, posted: &Option<usize>| posted.is_some_and(|posted| ids.len() >= posted);
    loop {
        if is_complete(&ids, &all_posted.borrow_and_update()) {
            return (ids, opened);
        }
        let Ok(socket) = Socket::try_open(&(urls.choose(&mut random) + PATH), "p", &[]).await else {
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        opened += 1;
        let mut socket = socket.of_kind(random.one_in(2));
        let since = ids.last().map_or("1970-01-01T00:00:00Z", String::as_str);
        let body = json!({ "queue_name": "q", "since": since, "options": { "with_delivery": true } });
        socket.request("subscription_create", &body).await;
        let wanted = random.below(100);
        for index in 0..=wanted {
            let received = tokio::select! {
                received = socket.receive() => received,
                _posted = all_posted.changed() => break,
            };
            match received {
                Received::Text(document) | Received::Binary(document) if index == 0 => {
                    // A store may be away for a moment.
                    if document["headers"]["status"] != 201 {
                        break;
                    }
                }
                Received::Text(document) | Received::Binary(document) => {
                    let id = document["delivery"]["message_id"].as_str();
                    ids.push(id.unwrap_or_else(|| panic!("{document}")).to_owned());
                    if is_complete(&ids, &all_posted.borrow()) {
                        return (ids, opened);
                    }
                }
                Received::Closed(_) => break,
            }
        }
    }
}
