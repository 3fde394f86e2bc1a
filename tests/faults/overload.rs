//! More requests than the store can serve: they wait in the process, projects take turns, and
//! requests that cannot be served are refused in time.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;

use crate::http::answered;
use support::exposition::Exposition;
use support::proxy::Proxy;
use support::redis::RedisServer;
use support::sukkal::{Api, CLIENT, Sukkal};
use support::waiting::{in_time, until_some};

/// Maximum number of operations in flight on a Redis server.
const IN_FLIGHT_MAX: u32 = 64;
const WAITING: u32 = 200;
const REQUESTS_IN_FLIGHT: &str = "sukkal_store_operations_in_flight";
const REQUESTS_WAITING: &str = "sukkal_store_requests_waiting";
const LIST: &str = "/v2/queues/q/messages?echo=true";
/// Pause between two reads of the metrics, which must not slow down what they observe.
const PAUSE_BETWEEN_READS: Duration = Duration::from_millis(5);
/// Time for attempts to overload a store. Its requests must come within the time that a command may
/// take, which a busy machine achieves only sometimes.
const ATTEMPTS_MAX: Duration = Duration::from_secs(120);

/// The name under which a request was sent, and the status of its response.
type Answer = (&'static str, u16);

/// A server over a Redis behind a proxy.
struct Scene {
    proxy: Proxy,
    sukkal: Sukkal,
    _redis: RedisServer,
}

impl Scene {
    fn start(environment: &[(&str, &str)]) -> Self {
        let redis = RedisServer::start();
        let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, redis.port())));
        let sukkal = Sukkal::start_with(&proxy.url("redis"), environment);
        Self { proxy, sukkal, _redis: redis }
    }

    /// Returns a client of a project with a queue that has a message.
    async fn project(&self, name: &str) -> Api {
        let api = self.sukkal.project(name);
        answered(api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": 1 }] })), 201).await;
        api
    }

    /// Waits until a metric has at least this value. Returns whether it has it before a request
    /// gets a response.
    async fn reaches(&self, metric: &str, value: u32, answers: &mut UnboundedReceiver<Answer>) -> bool {
        let reached = async {
            while Exposition::of(&self.sukkal.url("")).await.value(metric).unwrap() < f64::from(value) {
                sleep(PAUSE_BETWEEN_READS).await;
            }
        };
        let what = format!("{metric} reaches {value}");
        tokio::select! {
            () = in_time(&what, reached) => true,
            _early = answers.recv() => false,
        }
    }
}

/// Opens connections, so that requests on them arrive at the same time.
async fn connect(sukkal: &Sukkal, count: u32) -> Vec<TcpStream> {
    let connections = (0..count).map(async |_| {
        let mut stream = TcpStream::connect(sukkal.address()).await.unwrap();
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        assert_eq!(status(&mut stream).await, 204);
        stream
    });
    in_time("the connections are open", join_all(connections)).await
}

/// Sends a request of a project on each of the connections. Tasks report the responses under this
/// name.
async fn send(
    connections: Vec<TcpStream>,
    (name, request, body): (&'static str, &str, &str),
    answered: &UnboundedSender<Answer>,
) {
    let text = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nX-Project-ID: {name}\r\nClient-ID: {CLIENT}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    for mut stream in connections {
        stream.write_all(text.as_bytes()).await.unwrap();
        let answered = answered.clone();
        tokio::spawn(async move {
            let _nobody_counts_any_more = answered.send((name, status(&mut stream).await));
        });
    }
}

/// Returns the status of the next response, which says when to try again if it is a refusal. Reads
/// at least the whole head.
async fn status(stream: &mut TcpStream) -> u16 {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let length = in_time("a response arrives", stream.read(&mut buffer)).await.unwrap();
        assert!(length > 0, "the connection is closed after {:?}", String::from_utf8_lossy(&head));
        head.extend(&buffer[..length]);
    }
    let head = String::from_utf8_lossy(&head);
    let status = head[9..12].parse().expect("the status is a number");
    assert!(status != 503 || head.contains("\r\nretry-after: 1\r\n"), "{head}");
    status
}

/// Repeats an attempt until the requests come fast enough, and returns its outcome.
async fn first_that_is_fast<T>(attempt: impl AsyncFn() -> Option<T>) -> T {
    let deadline = Instant::now() + ATTEMPTS_MAX;
    loop {
        if let Some(outcome) = attempt().await {
            return outcome;
        }
        assert!(Instant::now() < deadline, "the requests came too slowly for {ATTEMPTS_MAX:?}");
    }
}

/// Overloads a store with the requests of one project, and then sends one of a quiet project.
/// Returns the projects in the order of their responses, or `None` if the requests came so slowly
/// that the store was taken for silent.
async fn order_in_an_overload() -> Option<Vec<&'static str>> {
    // In the order of arrival, the quiet project would get the 145th response.
    const WAITING: u32 = IN_FLIGHT_MAX + 16;
    let scene = Scene::start(&[]);
    let _apis = [scene.project("busy").await, scene.project("quiet").await];
    let (busy, quiet) = (connect(&scene.sukkal, IN_FLIGHT_MAX + WAITING).await, connect(&scene.sukkal, 1).await);
    let (sender, mut answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    send(busy, ("busy", &format!("GET {LIST}"), ""), &sender).await;
    let mut is_overload = scene.reaches(REQUESTS_WAITING, WAITING, &mut answers).await;
    send(quiet, ("quiet", &format!("GET {LIST}"), ""), &sender).await;
    is_overload = is_overload && scene.reaches(REQUESTS_WAITING, WAITING + 1, &mut answers).await;
    scene.proxy.restore();
    drop(sender);

    let mut order = Vec::new();
    while let Some((name, status)) = answers.recv().await {
        assert!([200, 503].contains(&status), "{status}");
        is_overload &= status == 200;
        order.push(name);
    }
    is_overload.then_some(order)
}

#[tokio::test]
async fn a_project_does_not_wait_for_the_overload_of_another_one() {
    let order = first_that_is_fast(order_in_an_overload).await;

    let place = order.iter().position(|name| *name == "quiet").unwrap();
    assert!(place < 2 * IN_FLIGHT_MAX as usize, "{place} of {} got responses earlier", order.len());
}

#[tokio::test]
async fn requests_that_wait_for_a_silent_store_are_refused_together() {
    let scene = Scene::start(&[]);
    scene.project("busy").await;
    let busy = connect(&scene.sukkal, IN_FLIGHT_MAX + WAITING).await;
    let (sender, mut answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    let start = Instant::now();
    send(busy, ("busy", &format!("GET {LIST}"), ""), &sender).await;
    drop(sender);

    let mut times = Vec::new();
    while let Some((_, status)) = answers.recv().await {
        assert_eq!(status, 503);
        times.push(start.elapsed());
    }
    // In sequence, the last ones would take five times as long as the first ones.
    let (first, last) = (times[0], times[times.len() - 1]);
    assert!(last < 3 * first, "{first:?} {last:?}");
}

#[tokio::test]
async fn a_post_that_waited_for_too_long_is_not_stored_later() {
    let listed = first_that_is_fast(listed_after_late_posts).await;

    assert_eq!(listed["messages"], json!([]));
}

/// Returns the feed after posts were refused that have waited, or `None` if they came so slowly
/// that the store was taken for silent.
async fn listed_after_late_posts() -> Option<Value> {
    const POSTS: u32 = 10;
    let scene = Scene::start(&[("SUKKAL_TRANSPORT__MAX_QUEUEING", "1")]);
    let [_busy, quiet] = [scene.project("busy").await, scene.project("quiet").await];
    let (busy, posts) = (connect(&scene.sukkal, IN_FLIGHT_MAX).await, connect(&scene.sukkal, POSTS).await);
    let (sender, mut answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    send(busy, ("busy", &format!("GET {LIST}"), ""), &sender).await;
    if !scene.reaches(REQUESTS_IN_FLIGHT, IN_FLIGHT_MAX, &mut answers).await {
        return None;
    }
    let message = json!({ "messages": [{ "body": "late" }] }).to_string();
    send(posts, ("quiet", "POST /v2/queues/late/messages", &message), &sender).await;
    if !scene.reaches(REQUESTS_WAITING, POSTS, &mut answers).await {
        return None;
    }
    let mut refused = 0;
    while refused < POSTS {
        let (name, status) = answers.recv().await.expect("each request gets a response");
        assert_eq!(status, 503, "{name}");
        refused += u32::from(name == "quiet");
    }
    scene.proxy.restore();

    let listed = until_some("the store is back", async || {
        let response = quiet.get("/v2/queues/late/messages?echo=true").send().await.unwrap();
        (response.status() == 200).then_some(response)
    });
    Some(listed.await.json().await.unwrap())
}

#[tokio::test]
async fn a_ping_waits_for_its_turn_like_any_request() {
    first_that_is_fast(ping_in_an_overload).await;
}

/// Sends a ping, which waits. Returns `None` if it came so slowly that the store was taken for
/// silent.
async fn ping_in_an_overload() -> Option<()> {
    let scene = Scene::start(&[]);
    scene.project("busy").await;
    let (busy, ping) = (connect(&scene.sukkal, IN_FLIGHT_MAX).await, connect(&scene.sukkal, 1).await);
    let (sender, mut answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    send(busy, ("busy", &format!("GET {LIST}"), ""), &sender).await;
    if !scene.reaches(REQUESTS_IN_FLIGHT, IN_FLIGHT_MAX, &mut answers).await {
        return None;
    }
    send(ping, ("ping", "GET /v2/ping", ""), &sender).await;
    if !scene.reaches(REQUESTS_WAITING, 1, &mut answers).await {
        return None;
    }
    scene.proxy.restore();
    drop(sender);

    let mut names = Vec::new();
    while let Some((name, _)) = answers.recv().await {
        names.push(name);
    }
    assert!(names.contains(&"ping"), "the ping has no response");
    Some(())
}

#[tokio::test]
async fn concurrent_readyz_requests_share_one_attempt() {
    const CALLERS: u32 = 500;
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let callers = connect(&sukkal, CALLERS).await;
    let (sender, mut answers) = mpsc::unbounded_channel();

    send(callers, ("p", "GET /readyz", ""), &sender).await;
    drop(sender);

    let mut ready = 0;
    while let Some((_, status)) = answers.recv().await {
        assert_eq!(status, 204);
        ready += 1;
    }
    assert_eq!(ready, CALLERS);
    let stats = redis.command(&["INFO", "commandstats"]);
    let attempts =
        stats.as_text().lines().find_map(|line| line.strip_prefix("cmdstat_del:calls=")).expect("DEL is used");
    let attempts: u32 = attempts.split(',').next().unwrap().parse().unwrap();
    assert!(attempts <= CALLERS / 2, "{attempts} attempts for {CALLERS} callers");
}
