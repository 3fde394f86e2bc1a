//! What is read when the metrics are requested, and how it is written.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::process::Process;
use sukkal_domain::QueueId;
use sukkal_storage::{DiskUsage, Load, PoolState, Processed};

/// The figures of the moment at which the metrics are requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures {
    /// Whether the store has answered.
    pub store_is_up: bool,
    /// The load of the store.
    pub load: Load,
    /// Whether the disk of the store is full.
    pub disk_is_full: bool,
    /// The disk of the store, if the store has a file.
    pub disk_usage: Option<DiskUsage>,
    /// Number of requests that wait for messages.
    pub waiters: usize,
    /// Number of event streams.
    pub streams: usize,
    /// Messages that this process has processed.
    pub processed: Processed,
    /// The states of the pools.
    pub pools: Vec<PoolState>,
    /// The figures of the queues that the operator has listed.
    pub queues: Arc<MonitoredFigures>,
}

/// The figures of the queues that the operator has listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MonitoredFigures {
    /// The queues whose figures are known, in order.
    pub queues: Vec<QueueFigures>,
    /// Number of listed queues and projects that could not be read, or for which there is no room.
    pub missing: usize,
}

/// The figures of one queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueFigures {
    /// The queue.
    pub queue: QueueId,
    /// Number of messages.
    pub messages: u64,
    /// Number of messages that are claimed or returned with a delay.
    pub claimed: u64,
    /// Age of the oldest available message, in seconds; 0 if none is available.
    pub oldest_age_s: u64,
    /// Number of messages in the dead-letter queue of the queue; 0 if it has none.
    pub dead_letters: u64,
    /// Number of messages that have expired since the queue was created.
    pub expired: u64,
}

impl QueueFigures {
    fn labels(&self) -> [(&str, &str); 2] {
        [("project", self.queue.project().as_str()), ("queue", self.queue.name().as_str())]
    }
}

/// The figures, as the library reads them.
#[derive(Debug)]
struct Scrape {
    figures: Figures,
    process: Option<Process>,
}

/// A metric of a queue: its name, its description and its value.
type QueueMetric = (&'static str, &'static str, fn(&QueueFigures) -> u64);

const QUEUE_METRICS: [QueueMetric; 5] = [
    ("sukkal_queue_messages", "Messages in the queue", |queue| queue.messages),
    ("sukkal_queue_claimed_messages", "Messages in the queue that are claimed or returned with a delay", |queue| {
        queue.claimed
    }),
    (
        "sukkal_queue_oldest_message_age_seconds",
        "Age of the oldest available message in the queue, or 0 if none is available",
        |queue| queue.oldest_age_s,
    ),
    ("sukkal_queue_dead_letters", "Messages in the dead-letter queue of the queue", |queue| queue.dead_letters),
    ("sukkal_queue_expired_messages_total", "Messages of the queue that expired before they were deleted", |queue| {
        queue.expired
    }),
];

impl Figures {
    /// Returns a registry that has the figures and those of the process.
    pub(super) fn into_registry(self) -> Registry {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Scrape { figures: self, process: Process::read() }));
        registry
    }
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self { figures, process } = self;
        let Processed { posted, claimed, deleted, expired, dead_lettered } = figures.processed;
        let to = &mut encoder;
        gauge(
            to,
            "sukkal_store_up",
            "1 if the store answered the last ping, otherwise 0",
            u64::from(figures.store_is_up),
        )?;
        gauge(
            to,
            "sukkal_store_operations_in_flight",
            "Operations of requests that are in flight in the store",
            figures.load.in_flight,
        )?;
        gauge(
            to,
            "sukkal_store_requests_waiting",
            "Requests that wait until the store can serve them",
            figures.load.waiting,
        )?;
        gauge(
            to,
            "sukkal_store_disk_full",
            "1 if the disk of the store is full, otherwise 0",
            u64::from(figures.disk_is_full),
        )?;
        if let Some(DiskUsage { file_bytes, free_bytes }) = figures.disk_usage {
            gauge(to, "sukkal_store_size_bytes", "Size of the file of the embedded store", file_bytes)?;
            gauge(to, "sukkal_store_disk_free_bytes", "Free space on the disk of the embedded store", free_bytes)?;
        }
        gauge(to, "sukkal_waiting_requests", "Requests that wait for messages", figures.waiters)?;
        gauge(to, "sukkal_event_streams", "Open event streams", figures.streams)?;
        counter(to, "sukkal_messages_posted_total", "Messages posted through this process", posted)?;
        counter(
            to,
            "sukkal_messages_claimed_total",
            "Messages delivered by claims and pops of this process, each time that they are delivered",
            claimed,
        )?;
        counter(
            to,
            "sukkal_messages_deleted_total",
            "Messages deleted by clients of this process, including pops",
            deleted,
        )?;
        counter(to, "sukkal_messages_expired_total", "Expired messages removed by this process", expired)?;
        counter(
            to,
            "sukkal_messages_dead_lettered_total",
            "Messages moved to a dead-letter queue by this process",
            dead_lettered,
        )?;
        let queues = &figures.queues.queues;
        for (name, help, value) in QUEUE_METRICS {
            let kind = if name.ends_with("_total") { MetricType::Counter } else { MetricType::Gauge };
            family(to, name, help, kind, queues.iter().map(|queue| (queue.labels(), value(queue))))?;
        }
        let help = "Queues of the option `queues`, or projects there, whose figures are missing";
        gauge(to, "sukkal_queue_figures_missing", help, figures.queues.missing)?;
        let help = "1 if the pool answered the last ping of this process, otherwise 0";
        let pools =
            figures.pools.iter().map(|pool| ([("pool", pool.name.as_str())], u64::from(pool.failure.is_none())));
        family(to, "sukkal_pool_up", help, MetricType::Gauge, pools)?;
        process.map_or(Ok(()), |process| encode_process(to, &process))
    }
}

/// Writes a metric that has a value for each of these labels; nothing without labels.
fn family<'f, const N: usize>(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    kind: MetricType,
    values: impl Iterator<Item = ([(&'f str, &'f str); N], u64)>,
) -> fmt::Result {
    let mut values = values.peekable();
    if values.peek().is_none() {
        return Ok(());
    }
    let mut metric = to.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in values {
        metric.encode_family(&labels)?.encode_gauge(&value)?;
    }
    Ok(())
}

fn encode_process(to: &mut DescriptorEncoder<'_>, process: &Process) -> fmt::Result {
    counter(to, "process_cpu_seconds_total", "Processor time used, in seconds", process.cpu_s)?;
    gauge(to, "process_resident_memory_bytes", "Resident memory", process.resident_bytes)?;
    gauge(to, "process_virtual_memory_bytes", "Virtual memory", process.virtual_bytes)?;
    gauge(to, "process_open_fds", "Open file descriptors", process.open_fds)?;
    if let Some(max_fds) = process.max_fds {
        gauge(to, "process_max_fds", "Maximum number of open file descriptors", max_fds)?;
    }
    gauge(to, "process_start_time_seconds", "Start of the process, in seconds since 1970", process.start_s)
}

fn gauge(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: impl EncodeGaugeValue + Copy) -> fmt::Result {
    to.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
}

/// Writes a counter under a name that ends in `_total`: see [`super::Total`].
fn counter(to: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: impl EncodeGaugeValue + Copy) -> fmt::Result {
    to.encode_descriptor(name, help, None, MetricType::Counter)?.encode_gauge(&value)
}
