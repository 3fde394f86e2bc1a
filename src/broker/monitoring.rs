//! Gathers the metrics. What the store must be asked for is asked at most once per interval, however
//! many callers read the metrics, and a store that does not answer delays them by a second at most.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::time::sleep;
use tracing::debug;

use super::access::Resource;
use super::monitor::Monitor;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use crate::domain::{QueueId, Summary};
use crate::metrics::scrape::{Figures, QueueFigures};

/// How long a reader of the metrics waits for a ping of the store.
const PING_WAIT_MAX: Duration = Duration::from_millis(100);
/// How long a reader of the metrics waits for the figures of queues.
const QUEUES_WAIT_MAX: Duration = Duration::from_secs(1);
/// Age at which the last ping and the last figures of queues are no longer shown.
const AGE_MAX: Duration = Duration::from_secs(60);
/// Maximum duration of a reading. Queues that are not read by then are left out.
const READING_MAX: Duration = Duration::from_secs(10);
/// Maximum number of queues that are read at the same time.
const READS_IN_FLIGHT_MAX: usize = 8;

impl Broker {
    /// Returns the current metrics of the process in Prometheus' text format.
    pub async fn metrics(&self, caller: &Caller) -> Result<String, Error> {
        let access = self.store.authorize(caller, Action::ReadMetrics, Resource::Store)?;
        let store = access.admit().await?;
        let ping = async move { access.admit().await?.ping().await };
        let is_up = &self.monitor.is_up;
        let (answered, queues) =
            tokio::join!(is_up.get(PING_WAIT_MAX, || async move { ping.await.is_ok() }), self.queue_figures());
        let figures = Figures {
            store_is_up: answered.or_else(|| is_up.last(AGE_MAX)).unwrap_or(false),
            load: store.load(),
            disk_is_full: store.has_full_disk(),
            disk_usage: store.disk_usage(),
            waiters: self.waiting.limit.total(),
            streams: self.streams.total(),
            processed: store.processed(),
            pools: store.pools().unwrap_or_default(),
            queues,
        };
        Ok(self.metrics.exposition(figures))
    }

    /// Returns the figures of the monitored queues, without those that could not be read.
    async fn queue_figures(&self) -> Arc<Vec<QueueFigures>> {
        let Monitor { queues, queue_figures, .. } = &self.monitor;
        if queues.is_empty() {
            return Arc::default();
        }
        let this = self.clone();
        let read = queue_figures.get(QUEUES_WAIT_MAX, || async move { Arc::new(this.read_monitored_queues().await) });
        let read = read.await.or_else(|| queue_figures.last(AGE_MAX));
        read.unwrap_or_default()
    }

    async fn read_monitored_queues(&self) -> Vec<QueueFigures> {
        let queues = self.monitor.queues.clone();
        let reads = queues.iter().map(async |queue| (queue, self.read_figures(queue).await));
        let mut reads =
            stream::iter(reads).buffer_unordered(READS_IN_FLIGHT_MAX).take_until(sleep(READING_MAX)).boxed();
        let mut figures = Vec::with_capacity(queues.len());
        while let Some((queue, read)) = reads.next().await {
            match read {
                Ok(read) => figures.push(read),
                Err(error) => debug!(%error, %queue, "cannot read a queue for the metrics"),
            }
        }
        figures.sort_unstable_by(|one, other| one.queue.cmp(&other.queue));
        figures
    }

    /// Reads the figures of one queue.
    async fn read_figures(&self, queue: &QueueId) -> Result<QueueFigures, Error> {
        let Summary { messages, totals, .. } = self.summary_of(queue).await?;
        let store = self.store.authorize(&Caller::System, Action::GetQueue, queue)?.admit().await?;
        let dead_letters = store.get_queue(queue).await?.and_then(|found| found.metadata.dead_letters());
        let dead_letters = match dead_letters {
            Some(settings) if settings.queue == *queue.name() => messages.total(),
            Some(settings) => match QueueId::new(queue.project().clone(), settings.queue) {
                Ok(target) => self.summary_of(&target).await?.messages.total(),
                Err(_too_long) => 0,
            },
            None => 0,
        };
        Ok(QueueFigures {
            queue: queue.clone(),
            messages: messages.total(),
            claimed: messages.claimed,
            oldest_age_s: messages.oldest_age_s.unwrap_or(0),
            dead_letters,
            expired: totals.expired,
        })
    }

    /// Counts the messages of a queue, as lists of queues do that have `with_stats`.
    async fn summary_of(&self, queue: &QueueId) -> Result<Summary, Error> {
        let store = self.store.authorize(&Caller::System, Action::GetStats, queue)?.admit().await?;
        let summary = store.summarize_queues(slice::from_ref(queue)).await?.pop();
        Ok(summary.expect("the first queue is always included"))
    }
}
