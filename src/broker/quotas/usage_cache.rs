//! What the queues of projects used when they were last measured.

use std::convert::Infallible;
use std::time::Duration;

use quick_cache::sync::Cache;

use crate::broker::cached::Cached;
use sukkal_domain::ProjectId;
use sukkal_storage::QueueUsage;

/// Age at which the usage of the queues of a project is measured again.
pub(super) const MEASURED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of projects whose measurements a process keeps.
const PROJECTS_MAX: usize = 10_000;

/// What the queues of a project use together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measurement {
    pub(super) usage: QueueUsage,
    /// How long the measurement took.
    pub(super) took: Duration,
}

/// The last measurement of each project. A measurement is `None` if the store has failed.
#[derive(Debug)]
pub(in crate::broker) struct UsageCache(Cache<ProjectId, Cached<Option<Measurement>>>);

impl UsageCache {
    pub(super) fn new() -> Self {
        Self(Cache::new(PROJECTS_MAX))
    }

    pub(super) fn of(&self, project: &ProjectId) -> Cached<Option<Measurement>> {
        let new = || Ok::<_, Infallible>(Cached::new(MEASURED_AGAIN_AFTER));
        self.0.get_or_insert_with(project, new).unwrap_or_else(|never| match never {})
    }

    /// Lets the next request that needs the current usage of the project wait for a new
    /// measurement. Posts are compared with the last one until it ends, which may take longer than
    /// they wait.
    pub(super) fn expire(&self, project: &ProjectId) {
        self.of(project).expire();
    }
}
