//! The upper bound of the store: the same scripts, called through the driver without HTTP.

use std::time::Duration;

use futures::future::join_all;
use sukkal_storage::redis::RedisStore;
use tokio::time::Instant;

use super::contestants::sample;
use super::fill::{self, message};
use super::results::Sample;
use crate::processes;
use crate::service::Store;
use crate::wrk::Outcome;

pub(crate) const TASKS: usize = 64;

/// A private Redis, and the driver for it.
pub(crate) struct Direct {
    store: Store,
    driver: RedisStore,
}

impl Direct {
    pub(crate) fn start() -> Self {
        let store = Store::redis();
        Self { driver: RedisStore::open(&store.url().parse().unwrap()).unwrap(), store }
    }

    /// Posts one message in each call, from many tasks, for the given time.
    pub(crate) async fn post(&self, bytes: usize, seconds: u32) -> Sample {
        self.store.flush();
        fill::fill(&self.driver, "q-0", TASKS, bytes).await;
        let queue = fill::queue("q-0");
        let revision = fill::revision(&self.driver, &queue).await;

        let redis = self.store.processes();
        let myself = [std::process::id()];
        let before = (processes::cpu_s(&myself), processes::cpu_s(&redis));
        let start = Instant::now();
        let end = start + Duration::from_secs(seconds.into());
        let tasks = (0..TASKS).map(|_| {
            let (store, queue, message) = (self.driver.clone(), queue.clone(), message(bytes));
            tokio::spawn(async move {
                let mut taken_ms = Vec::new();
                while Instant::now() < end {
                    let start = Instant::now();
                    fill::post(&store, &queue, revision, std::slice::from_ref(&message)).await;
                    taken_ms.push(start.elapsed().as_secs_f64() * 1000.0);
                }
                taken_ms
            })
        });
        let taken_ms = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
        let outcome = outcome(taken_ms, start.elapsed().as_secs_f64());
        let client_s = processes::cpu_s(&myself) - before.0;
        sample(&outcome, client_s, Some(processes::cpu_s(&redis) - before.1))
    }
}

/// Converts latencies to the outcome that a load generator would report.
pub(crate) fn outcome(mut taken_ms: Vec<f64>, seconds: f64) -> Outcome {
    taken_ms.sort_by(f64::total_cmp);
    let count = taken_ms.len();
    Outcome {
        requests: count as f64,
        seconds,
        refused: 0.0,
        broken: 0.0,
        mean_ms: taken_ms.iter().sum::<f64>() / count as f64,
        p50_ms: taken_ms[count / 2],
        p99_ms: taken_ms[count * 99 / 100],
        max_ms: taken_ms[count - 1],
        cpu_s: 0.0,
    }
}
