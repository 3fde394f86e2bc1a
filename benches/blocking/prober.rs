//! An innocent tenant: posts a tiny message and reads one, over and over, from a thread of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use serde_json::json;

use crate::support::sukkal::Api;

const PROJECT: &str = "innocent";
const MESSAGES: &str = "/v2/queues/q/messages";

/// A running prober.
pub(crate) struct Prober {
    taken_ms: Arc<Mutex<Vec<f64>>>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Prober {
    /// Starts to ask the server at this URL.
    pub(crate) fn start(url: String) -> Self {
        let (taken_ms, is_over) = (Arc::<Mutex<Vec<f64>>>::default(), Arc::<AtomicBool>::default());
        let (taken, over) = (taken_ms.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let api = Api::new(url, PROJECT);
                let tiny = json!({ "messages": [{ "ttl": 300, "body": 1 }] });
                let list = || api.get(&format!("{MESSAGES}?limit=1&echo=true"));
                // What comes once: the connection and the queue.
                api.post(MESSAGES, &tiny).send().await.unwrap();
                while !over.load(Ordering::Relaxed) {
                    for request in [api.post(MESSAGES, &tiny), list()] {
                        let start = Instant::now();
                        // A refusal is an answer too: what counts is how long it took.
                        let answer = request.send().await.unwrap();
                        answer.bytes().await.unwrap();
                        taken.lock().unwrap().push(start.elapsed().as_secs_f64() * 1e3);
                    }
                }
            });
        });
        Self { taken_ms, is_over, thread }
    }

    /// The median of its latencies so far.
    pub(crate) fn median_ms(&self) -> f64 {
        let mut taken_ms = self.taken_ms.lock().unwrap().clone();
        taken_ms.sort_by(f64::total_cmp);
        taken_ms[taken_ms.len() / 2]
    }

    /// Forgets the latencies so far.
    pub(crate) fn forget(&self) {
        self.taken_ms.lock().unwrap().clear();
    }

    /// Ends it, and returns the longest latency.
    pub(crate) fn stop(self) -> f64 {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        let taken_ms = self.taken_ms.lock().unwrap();
        taken_ms.iter().copied().fold(0.0, f64::max)
    }
}
