//! What projects use. Some of it is counted in all queues of a project, in small steps, and then
//! kept for a second.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::debug;

use super::usage_cache::{MEASURED_AGAIN_AFTER, Measurement};
use crate::auth::Caller;
use crate::broker::access::{AdmittedStore, require_client};
use crate::broker::{Action, Broker, Error};
use sukkal_domain::quotas::PerQuota;
use sukkal_domain::{ProjectId, QueueName, Quota, QuotaLimits};
use sukkal_storage::QueueUsage;

/// How long a request waits for a measurement.
const MEASUREMENT_WAIT_MAX: Duration = Duration::from_secs(2);
/// Age up to which a measurement is recent, besides twice the time that it took.
const RECENT_MAX: Duration = Duration::from_secs(2);
/// Number of queues that one step of a measurement examines.
const QUEUES_PER_STEP: usize = 100;
/// Pause between two steps. A measurement examines at most 2,000 queues in a second.
const STEP_PAUSE: Duration = Duration::from_millis(50);

/// The usage and the limits of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// How much the project uses; `None` if that is not counted, or not yet.
    pub usage: PerQuota<Option<u64>>,
    /// The limits in force.
    pub limits: QuotaLimits,
}

impl Broker {
    /// Returns how much the caller's project uses of its quotas.
    pub async fn get_usage(&self, caller: &Caller) -> Result<Usage, Error> {
        let project = &require_client(caller)?.project;
        let store = self.store.authorize(caller, Action::GetUsage, project)?.admit().await?;
        let limits = self.quotas.limits(project);
        let mut usage = PerQuota::default();
        for quota in [Quota::RequestsPerSecond, Quota::PostedBytesPerSecond] {
            usage[quota] = (limits[quota] > 0).then(|| self.quotas.rates.used(project, quota, limits[quota]));
        }
        usage[Quota::Queues] = Some(store.count_queues(project, None).await?);
        drop(store);
        let measured = self.measured_usage(project).await;
        usage[Quota::Subscriptions] = measured.map(|measured| measured.subscriptions);
        usage[Quota::Messages] = measured.map(|measured| measured.messages);
        usage[Quota::MessagesPerQueue] = measured.map(|measured| measured.messages_max);
        usage[Quota::Bytes] = measured.map(|measured| measured.bytes);
        usage[Quota::BytesPerQueue] = measured.map(|measured| measured.bytes_max);
        usage[Quota::WaitingRequests] = Some(self.waiting.limit.count(project));
        usage[Quota::EventStreams] = Some(self.streams.count(project));
        Ok(Usage { usage, limits })
    }

    /// Returns whether the project has as many subscriptions as it may: its quota, if so.
    pub(in crate::broker) async fn reached_subscriptions(&self, project: &ProjectId) -> Option<u64> {
        let max = self.quotas.limit(project, Quota::Subscriptions)?;
        let measured = self.measured_usage(project).await?;
        (measured.subscriptions >= max).then_some(max)
    }

    /// Records that this process has changed the number of subscriptions of the project.
    pub(in crate::broker) fn subscriptions_changed(&self, project: &ProjectId) {
        if self.quotas.limit(project, Quota::Subscriptions).is_some() {
            self.quotas.usage.expire(project);
        }
    }

    /// Returns what the queues of a project use: as of the last second, or else as of the last
    /// measurement that has ended.
    async fn measured_usage(&self, project: &ProjectId) -> Option<QueueUsage> {
        Some(self.measurement(project, MEASUREMENT_WAIT_MAX).await?.usage)
    }

    /// Returns what the queues of a project used a short time ago. Waits only for the first
    /// measurement, and for one after a time without requests.
    pub(super) async fn recent_usage(&self, project: &ProjectId) -> Option<QueueUsage> {
        let cached = self.quotas.usage.of(project);
        if let Some(last) = cached.last(Duration::MAX).flatten()
            && cached.last(RECENT_MAX + 2 * last.took).is_some()
        {
            if cached.last(MEASURED_AGAIN_AFTER).is_none() {
                self.measurement(project, Duration::ZERO).await;
            }
            return Some(last.usage);
        }
        self.measured_usage(project).await
    }

    /// Measures what the queues of a project use, unless that was done in the last second. Waits
    /// for the result up to this time, and then returns the last one.
    async fn measurement(&self, project: &ProjectId, wait_max: Duration) -> Option<Measurement> {
        let cached = self.quotas.usage.of(project);
        let (this, of, before) = (self.clone(), project.clone(), cached.clone());
        let measure = || async move {
            let began = Instant::now();
            let measured = this.measure(&of).await.map(|usage| Measurement { usage, took: began.elapsed() });
            let failed = |error| debug!(%error, project = %of, "cannot measure what a project uses");
            measured.map_err(failed).ok().or_else(|| before.last(Duration::MAX).flatten())
        };
        let measured = cached.get(wait_max, measure).await;
        measured.or_else(|| cached.last(Duration::MAX)).flatten()
    }

    async fn measure(&self, project: &ProjectId) -> Result<QueueUsage, Error> {
        let access = self.store.authorize(&Caller::System, Action::GetUsage, project)?.in_turn();
        let (mut usage, mut after) = (QueueUsage::default(), None::<QueueName>);
        loop {
            let store: AdmittedStore = access.admit().await?;
            let measured = store.measure_queues(project, after.as_ref(), QUEUES_PER_STEP).await?;
            drop(store);
            usage.add(measured.usage);
            after = measured.reached;
            if after.is_none() {
                return Ok(usage);
            }
            sleep(STEP_PAUSE).await;
        }
    }
}
