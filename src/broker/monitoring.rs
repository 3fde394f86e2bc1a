//! Gathers the metrics. What the store must be asked for is asked at most once per interval,
//! however many callers read the metrics, and a store that does not answer delays them by a second
//! at most.

use std::collections::BTreeSet;
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
use crate::observability::metrics::scrape::{Figures, MonitoredFigures, QueueFigures};
use sukkal_domain::{MONITORED_QUEUES_MAX, MonitoredQueues, ProjectId, QueueId, QueueKind, Summary};
use sukkal_storage::{NameRange, QueueListing};

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

    /// Returns the figures of the monitored queues.
    async fn queue_figures(&self) -> Arc<MonitoredFigures> {
        let Monitor { queues, queue_figures, .. } = &self.monitor;
        if queues.is_empty() {
            return Arc::default();
        }
        let this = self.clone();
        let read = queue_figures.get(QUEUES_WAIT_MAX, || async move { Arc::new(this.read_monitored_queues().await) });
        let read = read.await.or_else(|| queue_figures.last(AGE_MAX));
        read.unwrap_or_else(|| Arc::new(MonitoredFigures { missing: queues.len(), ..MonitoredFigures::default() }))
    }

    async fn read_monitored_queues(&self) -> MonitoredFigures {
        let (queues, unlisted) = self.monitored_queues().await;
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
        drop(reads);
        figures.sort_unstable_by(|one, other| one.queue.cmp(&other.queue));
        MonitoredFigures { missing: queues.len() - figures.len() + unlisted, queues: figures }
    }

    /// Returns the monitored queues, and the number of projects whose queues are not all included,
    /// because they cannot be listed or are too many.
    async fn monitored_queues(&self) -> (BTreeSet<QueueId>, usize) {
        let (mut queues, mut unlisted) = (BTreeSet::new(), 0);
        // Queues that are named precede those of projects.
        for monitored in &*self.monitor.queues {
            match monitored {
                MonitoredQueues::Queue(queue) => drop(queues.insert(queue.clone())),
                MonitoredQueues::Project(project) => {
                    let listed = self.add_queues_of(project, &mut queues).await;
                    unlisted += usize::from(!listed.unwrap_or_else(|error| {
                        debug!(%error, %project, "cannot list the queues of a project for the metrics");
                        false
                    }));
                }
            }
        }
        (queues, unlisted)
    }

    /// Adds the queues of a project. Returns whether there was room for all of them.
    async fn add_queues_of(&self, project: &ProjectId, queues: &mut BTreeSet<QueueId>) -> Result<bool, Error> {
        let of_project = Resource::Project(project.clone(), QueueKind::Queue);
        let access = self.store.authorize(&Caller::System, Action::ListQueues, of_project)?;
        let mut after = None;
        loop {
            let names = NameRange::of_kind(QueueKind::Queue, after.as_deref(), None);
            let listing = QueueListing { names, examined_max: MONITORED_QUEUES_MAX, ..QueueListing::default() };
            let page = access.admit().await?.list_queues(project, &listing).await?;
            for (name, _) in page.queues {
                let queue = QueueId::new(project.clone(), name).expect("a project with a queue has a short id");
                if queues.len() == MONITORED_QUEUES_MAX && !queues.contains(&queue) {
                    return Ok(false);
                }
                queues.insert(queue);
            }
            let Some(reached) = page.reached else { return Ok(true) };
            after = Some(reached.to_string());
        }
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
