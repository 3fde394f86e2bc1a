//! Messages of a queue that each of many readers receives.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

use crate::client::Connection;
use crate::statistics::percentile;

/// Maximum time after the last post until all messages have arrived.
const LATE_MAX: Duration = Duration::from_secs(30);

/// The delays of all messages that readers have received, in milliseconds.
#[derive(Clone)]
pub(crate) struct Arrivals {
    start: Instant,
    delays_ms: Arc<Mutex<Vec<f64>>>,
}

/// The outcome of posts at a constant rate.
pub(crate) struct FanOut {
    pub(crate) delivered: f64,
    pub(crate) delivered_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Arrivals {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), delays_ms: Arc::default() }
    }

    /// Records a message that was posted at this time, which its body contains.
    pub(crate) fn record(&self, posted_us: u64) {
        let delay_s = self.start.elapsed().as_secs_f64() - posted_us as f64 / 1e6;
        self.delays_ms.lock().unwrap().push(delay_s.max(0.0) * 1e3);
    }

    /// Adds event streams of different clients to the readers of a queue.
    pub(crate) async fn follow(&self, readers: &mut JoinSet<()>, url: &str, queue: &str, count: usize) {
        for number in 0..count {
            let (arrivals, mut connection) = (self.clone(), Connection::open(url).await);
            connection.follow(&format!("/v2/queues/{queue}/messages?since=now"), number).await;
            readers.spawn(async move {
                loop {
                    arrivals.record(connection.next_posted_us().await);
                }
            });
        }
    }

    /// Posts messages of 100 bytes to a queue for this time, and waits until each reader has
    /// received all of them.
    pub(crate) async fn post(self, url: &str, queue: &str, rate: u32, time: Duration, readers: usize) -> FanOut {
        let mut poster = Connection::open(url).await;
        let mut ticks = interval(Duration::from_secs(1) / rate);
        let (begin, mut expected) = (Instant::now(), 0);
        while begin.elapsed() < time {
            ticks.tick().await;
            let now_us = u64::try_from(self.start.elapsed().as_micros()).unwrap();
            let message = json!({ "ttl": 300, "body": ["at", now_us, "x".repeat(100)] });
            let body = json!({ "messages": [message] }).to_string();
            poster.request("POST", &format!("/v2/queues/{queue}/messages"), &body).await;
            expected += readers;
        }
        let deadline = Instant::now() + LATE_MAX;
        while self.delays_ms.lock().unwrap().len() < expected && Instant::now() < deadline {
            sleep(Duration::from_millis(10)).await;
        }
        let took_s = begin.elapsed().as_secs_f64();
        let mut delays_ms = std::mem::take(&mut *self.delays_ms.lock().unwrap());
        assert_eq!(delays_ms.len(), expected, "every reader has every message");
        FanOut {
            delivered: expected as f64,
            delivered_per_s: expected as f64 / took_s,
            p50_ms: percentile(&mut delays_ms, 50),
            p99_ms: percentile(&mut delays_ms, 99),
        }
    }
}
