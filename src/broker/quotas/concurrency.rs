//! The number of waiting requests, event streams or running redrives that one project may have in
//! this process. Each of the first two occupies a connection.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::limits::Quotas;
use crate::broker::Error;
use sukkal_domain::{ProjectId, Quota};

/// Counts things of one kind by project.
#[derive(Clone, Debug)]
pub(in crate::broker) struct ConcurrencyLimit {
    kind: &'static str,
    max: Maximum,
    counts: Arc<Mutex<HashMap<ProjectId, u32>>>,
}

/// The maximum number of things of one project.
#[derive(Clone, Debug)]
enum Maximum {
    Fixed(u32),
    /// The limit of this quota.
    Quota(Arc<Quotas>, Quota),
}

/// One counted thing of a project, until it is dropped.
#[derive(Debug)]
pub struct ConcurrencyUnit {
    limit: ConcurrencyLimit,
    project: ProjectId,
}

impl ConcurrencyLimit {
    /// Allows at most `max` things for each project. `kind` is their name in the plural.
    pub(in crate::broker) fn fixed(kind: &'static str, max: u32) -> Self {
        Self { kind, max: Maximum::Fixed(max), counts: Arc::default() }
    }

    /// Allows as many things as the quota of their project.
    pub(in crate::broker) fn by_quota(kind: &'static str, quotas: Arc<Quotas>, quota: Quota) -> Self {
        Self { kind, max: Maximum::Quota(quotas, quota), counts: Arc::default() }
    }

    /// Counts one more thing of the project.
    ///
    /// # Errors
    ///
    /// [`Error::TooManyAtOnce`] if the project has as many as it may.
    pub(in crate::broker) fn acquire(&self, project: &ProjectId) -> Result<ConcurrencyUnit, Error> {
        let max = match &self.max {
            Maximum::Fixed(max) => Some((*max).into()),
            Maximum::Quota(quotas, quota) => quotas.limit(project, *quota),
        };
        let mut counts = self.counts.lock();
        let count = counts.get(project).copied().unwrap_or_default();
        if let Some(max) = max.filter(|max| u64::from(count) >= *max) {
            return Err(Error::TooManyAtOnce { kind: self.kind, max });
        }
        counts.insert(project.clone(), count + 1);
        Ok(ConcurrencyUnit { limit: self.clone(), project: project.clone() })
    }

    /// Returns the number of things of a project.
    pub(in crate::broker) fn count(&self, project: &ProjectId) -> u64 {
        self.counts.lock().get(project).copied().unwrap_or_default().into()
    }

    /// Returns the number of things of all projects.
    pub(in crate::broker) fn total(&self) -> usize {
        self.counts.lock().values().map(|count| *count as usize).sum()
    }
}

impl Drop for ConcurrencyUnit {
    fn drop(&mut self) {
        let mut counts = self.limit.counts.lock();
        if let Some(count) = counts.get_mut(&self.project) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.project);
            }
        }
    }
}
