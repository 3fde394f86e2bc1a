//! A client in another project that alternately posts a tiny message and reads one, in a thread of
//! its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::json;

use crate::statistics::median;
use support::sukkal::Api;

const PROJECT: &str = "innocent";
const MESSAGES: &str = "/v2/queues/q/messages";

/// A running prober.
pub(crate) struct Prober {
    latencies_ms: Arc<Mutex<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Prober {
    /// Starts to send requests to the server at this URL.
    pub(crate) fn start(url: String) -> Self {
        let (latencies_ms, is_over) = (Arc::<Mutex<Vec<f64>>>::default(), Arc::<AtomicBool>::default());
        let (latencies, over) = (latencies_ms.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let api = Api::new(url, PROJECT);
                let tiny = json!({ "messages": [{ "ttl": 300, "body": 1 }] });
                let list = || api.get(&format!("{MESSAGES}?limit=1&echo=true"));
                // The first request opens the connection and creates the queue, so it is not
                // measured.
                api.post(MESSAGES, &tiny).send().await.unwrap();
                while !over.load(Ordering::Relaxed) {
                    for request in [api.post(MESSAGES, &tiny), list()] {
                        let start = Instant::now();
                        // The response may be an error, because only its latency is measured.
                        let answer = request.send().await.unwrap();
                        answer.bytes().await.unwrap();
                        latencies.lock().unwrap().push(start.elapsed().as_secs_f64() * 1e3);
                    }
                }
            });
        });
        Self { latencies_ms, is_over, thread }
    }

    /// The median of the latencies so far, in milliseconds.
    pub(crate) fn median_ms(&self) -> f64 {
        median(self.latencies_ms.lock().unwrap().clone())
    }

    /// Discards the latencies so far.
    pub(crate) fn clear(&self) {
        self.latencies_ms.lock().unwrap().clear();
    }

    /// Stops the prober and returns the maximum latency, in milliseconds.
    pub(crate) fn stop(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let latencies_ms = self.latencies_ms.lock().unwrap();
        latencies_ms.iter().copied().fold(0.0, f64::max)
    }
}
