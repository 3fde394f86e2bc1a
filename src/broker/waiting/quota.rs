//! The number of waiting requests or event streams that one project may have in this process. Each
//! of them occupies a connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::broker::Error;
use crate::domain::ProjectId;

/// Counts things of one kind by project.
#[derive(Clone, Debug)]
pub(in crate::broker) struct ProjectQuota {
    kind: &'static str,
    max: u32,
    counts: Arc<Mutex<HashMap<ProjectId, u32>>>,
}

/// One counted thing of a project, until it is dropped.
#[derive(Debug)]
pub(in crate::broker) struct QuotaUnit {
    quota: ProjectQuota,
    project: ProjectId,
}

impl ProjectQuota {
    /// Creates a quota of at most `max` things for each project. `kind` is their name in the
    /// plural.
    pub(in crate::broker) fn new(kind: &'static str, max: u32) -> Self {
        Self { kind, max, counts: Arc::default() }
    }

    /// Counts one more thing of the project.
    ///
    /// # Errors
    ///
    /// [`Error::QuotaExceeded`] if the project has as many as it may.
    pub(in crate::broker) fn acquire(&self, project: &ProjectId) -> Result<QuotaUnit, Error> {
        let mut counts = self.counts();
        let count = counts.get(project).copied().unwrap_or_default();
        if count >= self.max {
            return Err(Error::QuotaExceeded { kind: self.kind, max: self.max });
        }
        counts.insert(project.clone(), count + 1);
        Ok(QuotaUnit { quota: self.clone(), project: project.clone() })
    }

    /// Returns the number of things of all projects.
    pub(in crate::broker) fn total(&self) -> usize {
        self.counts().values().map(|count| *count as usize).sum()
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<ProjectId, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QuotaUnit {
    fn drop(&mut self) {
        let mut counts = self.quota.counts();
        if let Some(count) = counts.get_mut(&self.project) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.project);
            }
        }
    }
}
