//! More requests than the store can serve: they wait in the process, projects take turns, and
//! requests that cannot be served are refused in time.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use crate::support::exposition::Exposition;
use crate::support::proxy::Proxy;
use crate::support::redis::RedisServer;
use crate::support::sukkal::{Api, Sukkal};

/// Maximum number of operations in flight on a Redis server.
const IN_FLIGHT_MAX: u32 = 64;
const WAITING: u32 = 200;
const REQUESTS_WAITING: &str = "sukkal_store_requests_waiting";
/// Maximum number of attempts to overload a store within the time that a command may take.
const ATTEMPTS_MAX: u32 = 30;
/// Pause between two reads of the metrics, which must not slow down what they observe.
const PAUSE_BETWEEN_READS: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_secs(20);

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
        let posted = api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": 1 }] })).send().await.unwrap();
        assert_eq!(posted.status(), 201);
        api
    }

    /// Waits until a metric has at least this value.
    async fn reaches(&self, metric: &str, value: u32) {
        let reached = async {
            while Exposition::of(&self.sukkal.url("")).await.value(metric).unwrap() < f64::from(value) {
                sleep(PAUSE_BETWEEN_READS).await;
            }
        };
        timeout(TIMEOUT, reached).await.unwrap_or_else(|_| panic!("{metric} does not reach {value}"));
    }
}

/// Lists the feed in a task, which reports under this name when the response arrived, and its
/// status.
fn list(api: &Api, name: &'static str, answered: &mpsc::UnboundedSender<(&'static str, u16)>) {
    let (api, answered) = (api.clone(), answered.clone());
    tokio::spawn(async move {
        let response = api.get("/v2/queues/q/messages?echo=true").send().await.unwrap();
        let _nobody_counts_any_more = answered.send((name, response.status().as_u16()));
    });
}

/// Overloads a store with the requests of one project, and then sends one of a quiet project. Returns
/// the projects in the order of their responses, or `None` if the requests came so slowly that the
/// store was taken for silent.
async fn order_in_an_overload() -> Option<Vec<&'static str>> {
    // In the order of arrival, the quiet project would get the 145th response.
    const WAITING: u32 = IN_FLIGHT_MAX + 16;
    let scene = Scene::start(&[]);
    let (busy, quiet) = (scene.project("busy").await, scene.project("quiet").await);
    let (sender, mut answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    for _ in 0..IN_FLIGHT_MAX + WAITING {
        list(&busy, "busy", &sender);
    }
    let queued = async {
        scene.reaches(REQUESTS_WAITING, WAITING).await;
        list(&quiet, "quiet", &sender);
        scene.reaches(REQUESTS_WAITING, WAITING + 1).await;
    };
    let mut is_overload = tokio::select! {
        () = queued => true,
        _refused = answers.recv() => false,
    };
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
    for _ in 0..ATTEMPTS_MAX {
        let Some(order) = order_in_an_overload().await else { continue };
        let place = order.iter().position(|name| *name == "quiet").unwrap();
        assert!(place < 2 * IN_FLIGHT_MAX as usize, "{place} of {} got responses earlier", order.len());
        return;
    }
    panic!("the requests came too slowly in {ATTEMPTS_MAX} attempts");
}

#[tokio::test]
async fn requests_that_wait_for_a_silent_store_are_refused_together() {
    let scene = Scene::start(&[]);
    let busy = scene.project("busy").await;
    let (sender, mut answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    let start = Instant::now();
    for _ in 0..IN_FLIGHT_MAX + WAITING {
        list(&busy, "busy", &sender);
    }
    drop(sender);

    while let Some((_, status)) = answers.recv().await {
        assert_eq!(status, 503);
    }
    // In sequence they would take seven seconds.
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_post_that_waited_for_too_long_is_not_stored_later() {
    let scene = Scene::start(&[("SUKKAL_TRANSPORT__MAX_QUEUEING", "1")]);
    let (busy, quiet) = (scene.project("busy").await, scene.project("quiet").await);
    let (sender, _answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    for _ in 0..IN_FLIGHT_MAX {
        list(&busy, "busy", &sender);
    }
    scene.reaches("sukkal_store_operations_in_flight", IN_FLIGHT_MAX).await;
    let message = json!({ "messages": [{ "body": "late" }] });
    let posts = join_all((0..10).map(|_| quiet.post("/v2/queues/late/messages", &message).send())).await;
    scene.proxy.restore();

    for response in posts {
        let response = response.unwrap();
        assert_eq!(response.status(), 503);
        assert_eq!(response.headers()["retry-after"], "1");
    }
    let listed = async {
        loop {
            let response = quiet.get("/v2/queues/late/messages?echo=true").send().await.unwrap();
            if response.status() == 200 {
                return response.json::<Value>().await.unwrap();
            }
        }
    };
    let listed = timeout(TIMEOUT, listed).await.expect("the store is back");
    assert_eq!(listed["messages"], json!([]));
}

#[tokio::test]
async fn a_ping_waits_for_its_turn_like_any_request() {
    let scene = Scene::start(&[]);
    let busy = scene.project("busy").await;
    let (sender, _answers) = mpsc::unbounded_channel();

    scene.proxy.black_hole();
    for _ in 0..IN_FLIGHT_MAX {
        list(&busy, "busy", &sender);
    }
    scene.reaches("sukkal_store_operations_in_flight", IN_FLIGHT_MAX).await;
    let ping = tokio::spawn(busy.get("/v2/ping").send());

    scene.reaches(REQUESTS_WAITING, 1).await;
    scene.proxy.restore();
    timeout(TIMEOUT, ping).await.expect("there is a response").unwrap().unwrap();
}

#[tokio::test]
async fn concurrent_readyz_requests_share_one_attempt() {
    const CALLERS: usize = 500;
    let redis = RedisServer::start();
    let sukkal = Sukkal::start(&redis.url());
    let (http, url) = (reqwest::Client::new(), sukkal.url("/readyz"));

    let answers = join_all((0..CALLERS).map(|_| http.get(&url).send())).await;

    assert!(answers.into_iter().all(|answer| answer.unwrap().status() == 204));
    let stats = redis.command(&["INFO", "commandstats"]);
    let attempts =
        stats.as_text().lines().find_map(|line| line.strip_prefix("cmdstat_del:calls=")).expect("DEL is used");
    let attempts: usize = attempts.split(',').next().unwrap().parse().unwrap();
    assert!(attempts <= CALLERS / 2, "{attempts} attempts for {CALLERS} callers");
}
