//! Clients that use two queues all the time: posts and lists by marker in a feed, and posts,
//! waiting claims and deletions in a queue of workers. All their responses are recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::error::Elapsed;
use tokio::time::{sleep, timeout};

use super::history::{Acknowledged, History, Listed, Span};
use crate::faults::requests::{HANG_TIMEOUT, PROMISED, SLACK};
use support::sukkal::Api;
use support::timeline::start_actors;

pub(super) const POSTERS: usize = 4;
const OBSERVERS: usize = 2;
const WORKERS: usize = 2;
/// The workers get one of so many posts.
const POSTS_PER_WORK: u64 = 4;
/// Pause of a poster after each post, so that the other clients keep up, and of all after a 503.
pub(super) const PAUSE: Duration = Duration::from_millis(4);
/// How long a claim waits.
const WAIT: Duration = Duration::from_secs(1);

/// The state that all clients share.
pub(super) struct Load {
    api: Api,
    feed: String,
    work: String,
    /// The header `Durability` of each post, if there is one.
    durability: Option<&'static str>,
    started: Instant,
    next_tag: AtomicU64,
    acknowledged: AtomicUsize,
    refused: AtomicUsize,
    refused_posts: AtomicUsize,
    /// Posters stop, then the other clients, when no message is left.
    are_posts_over: AtomicBool,
    over: AtomicBool,
}

/// The clients at work.
pub(super) struct Clients {
    load: Arc<Load>,
    posts: JoinSet<(Vec<Acknowledged>, Vec<Acknowledged>)>,
    readings: JoinSet<Vec<Listed>>,
    work: JoinSet<(Vec<Acknowledged>, Vec<Acknowledged>)>,
}

impl Clients {
    /// Starts clients of two new queues, whose names begin with `name`.
    pub(super) async fn start(api: Api, name: &str, durability: Option<&'static str>) -> Self {
        let [feed, work] = ["feed", "work"].map(|kind| format!("/v2/queues/{name}-{kind}"));
        for queue in [&feed, &work] {
            assert_eq!(api.put(queue).send().await.unwrap().status(), 201);
        }
        let load = Arc::new(Load {
            api,
            feed,
            work,
            durability,
            started: Instant::now(),
            next_tag: AtomicU64::new(1),
            acknowledged: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            refused_posts: AtomicUsize::new(0),
            are_posts_over: AtomicBool::new(false),
            over: AtomicBool::new(false),
        });
        Self {
            posts: start_actors(POSTERS, |_| load.clone().post_all_the_time()),
            readings: start_actors(OBSERVERS, |_| load.clone().observe()),
            work: start_actors(WORKERS, |_| load.clone().work()),
            load,
        }
    }

    /// Returns the time since the start, in microseconds.
    pub(super) fn now(&self) -> u64 {
        self.load.now()
    }

    /// Returns how many requests got the response 503.
    pub(super) fn refused(&self) -> usize {
        self.load.refused.load(Ordering::SeqCst)
    }

    /// Waits until so many more posts are acknowledged.
    pub(super) async fn wait_for_posts(&self, count: usize) {
        wait_for_more(&self.load.acknowledged, count).await.expect("posts are acknowledged");
    }

    /// Waits until so many more posts get the response 503.
    pub(super) async fn wait_for_refused_posts(&self, count: usize) {
        wait_for_more(&self.load.refused_posts, count).await.expect("posts are refused");
    }

    /// Stops all clients, and deletes the queues.
    pub(super) async fn stop(self, window: (u64, u64)) -> History {
        let Self { load, posts, readings, work } = self;
        let mut history = History { window, ..History::default() };
        load.are_posts_over.store(true, Ordering::SeqCst);
        for (feed, work) in posts.join_all().await {
            history.feed_posts.extend(feed);
            history.work_posts.extend(work);
        }
        load.over.store(true, Ordering::SeqCst);
        history.readings = readings.join_all().await;
        for (claims, deletions) in work.join_all().await {
            history.claims.extend(claims);
            history.deletions.extend(deletions);
        }
        history.feed = load.read_all(&load.feed).await;
        history.work = load.read_all(&load.work).await;
        for queue in [&load.feed, &load.work] {
            assert_eq!(load.api.delete(queue).send().await.unwrap().status(), 204);
        }
        history
    }
}

impl Load {
    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).expect("no test takes so long")
    }

    /// Returns the response with its span, or `None` if the store was not available. That must be
    /// said in time.
    async fn send(&self, request: RequestBuilder, wait: Duration, expected: &[u16]) -> Option<(Span, u16, Value)> {
        let invoked = self.now();
        let start = Instant::now();
        let response = async {
            let response = request.send().await.expect("the server answers");
            (response.status().as_u16(), response.bytes().await.expect("the response is complete"))
        };
        let (status, body) = timeout(wait + HANG_TIMEOUT, response).await.expect("no request hangs");
        let (took, span) = (start.elapsed(), Span { invoked, answered: self.now() });
        assert!(took < wait + PROMISED + SLACK, "the response {status} took {took:?}");
        if status == 503 {
            self.refused.fetch_add(1, Ordering::SeqCst);
            sleep(PAUSE).await;
            return None;
        }
        assert!(expected.contains(&status), "{status}: {}", String::from_utf8_lossy(&body));
        Some((span, status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn post_all_the_time(self: Arc<Self>) -> (Vec<Acknowledged>, Vec<Acknowledged>) {
        let (mut to_feed, mut to_work) = (Vec::new(), Vec::new());
        while !self.are_posts_over.load(Ordering::SeqCst) {
            let tag = self.next_tag.fetch_add(1, Ordering::SeqCst);
            let is_work = tag.is_multiple_of(POSTS_PER_WORK);
            let (queue, posts) = if is_work { (&self.work, &mut to_work) } else { (&self.feed, &mut to_feed) };
            let mut request = self.api.post(&format!("{queue}/messages"), &json!({ "messages": [{ "body": tag }] }));
            if let Some(level) = self.durability {
                request = request.header("Durability", level);
            }
            if let Some((span, ..)) = self.send(request, Duration::ZERO, &[201]).await {
                posts.push(Acknowledged { span, tags: vec![tag] });
                self.acknowledged.fetch_add(1, Ordering::SeqCst);
            } else {
                self.refused_posts.fetch_add(1, Ordering::SeqCst);
            }
            sleep(PAUSE).await;
        }
        (to_feed, to_work)
    }

    /// Follows the feed by marker, to its end.
    async fn observe(self: Arc<Self>) -> Vec<Listed> {
        let (mut read, mut marker) = (Vec::new(), String::new());
        loop {
            let is_last = self.over.load(Ordering::SeqCst);
            let Some(page) = self.list(&self.feed, &marker).await else { continue };
            if page.is_empty() && is_last {
                return read;
            }
            if let Some((id, _)) = page.last() {
                marker = format!("&marker={id}");
            }
            read.extend(page);
            sleep(PAUSE).await;
        }
    }

    /// Claims messages and deletes them, to the end.
    async fn work(self: Arc<Self>) -> (Vec<Acknowledged>, Vec<Acknowledged>) {
        let (mut claims, mut deletions) = (Vec::new(), Vec::new());
        let path = format!("{}/claims?limit=5&wait={}", self.work, WAIT.as_secs());
        loop {
            let is_last = self.over.load(Ordering::SeqCst);
            let claim = self.api.post(&path, &json!({ "ttl": 600, "grace": 60 }));
            let Some((span, status, claim)) = self.send(claim, WAIT, &[201, 204]).await else { continue };
            if status == 204 {
                if is_last {
                    return (claims, deletions);
                }
                continue;
            }
            let messages = claim["messages"].as_array().expect("a claim has messages");
            claims.push(Acknowledged { span, tags: messages.iter().map(tag).collect() });
            for message in messages {
                let deletion = self.api.delete(message["href"].as_str().expect("a message has a path"));
                // After a failover, the claim may be unknown, or the message may be in another one.
                if let Some((span, 204, _)) = self.send(deletion, Duration::ZERO, &[204, 400, 403]).await {
                    deletions.push(Acknowledged { span, tags: vec![tag(message)] });
                }
            }
        }
    }

    /// Returns all messages of a queue, with those that are claimed.
    async fn read_all(&self, queue: &str) -> Vec<Listed> {
        let (mut all, mut marker) = (Vec::new(), String::new());
        loop {
            let page = self.list(queue, &marker).await.expect("the store is available");
            let Some((id, _)) = page.last() else { return all };
            marker = format!("&marker={id}");
            all.extend(page);
        }
    }

    async fn list(&self, queue: &str, marker: &str) -> Option<Vec<Listed>> {
        let request = self.api.get(&format!("{queue}/messages?echo=true&include_claimed=true&limit=20{marker}"));
        let (_, _, page) = self.send(request, Duration::ZERO, &[200]).await?;
        let messages = page["messages"].as_array().expect("a page has messages");
        let id = |message: &Value| message["id"].as_str().expect("a message has an id").to_owned();
        Some(messages.iter().map(|message| (id(message), tag(message))).collect())
    }
}

/// Waits until the counter has grown by so much.
async fn wait_for_more(counter: &AtomicUsize, growth: usize) -> Result<(), Elapsed> {
    let due = counter.load(Ordering::SeqCst) + growth;
    let grown = async {
        while counter.load(Ordering::SeqCst) < due {
            sleep(PAUSE).await;
        }
    };
    timeout(3 * HANG_TIMEOUT, grown).await
}

fn tag(message: &Value) -> u64 {
    message["body"].as_u64().expect("the body is a tag")
}
