//! How much of a process one project may occupy: requests that wait and event streams, each of which has a connection, are
//! counted by project.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Error;
use crate::domain::ProjectId;

/// Counts one kind of thing by project.
#[derive(Clone, Debug)]
pub(super) struct Shares {
    kind: &'static str,
    max: u32,
    counts: Arc<Mutex<HashMap<ProjectId, u32>>>,
}

/// One of a project's share, until it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Shares,
    project: ProjectId,
}

impl Shares {
    /// At most `max` things of this kind, which is a plural, for each project.
    pub(super) fn new(kind: &'static str, max: u32) -> Self {
        Self { kind, max, counts: Arc::default() }
    }

    /// Counts one more.
    pub(super) fn take(&self, project: &ProjectId) -> Result<Share, Error> {
        let mut counts = self.counts();
        let count = counts.get(project).copied().unwrap_or_default();
        if count >= self.max {
            return Err(Error::Share { kind: self.kind, max: self.max });
        }
        counts.insert(project.clone(), count + 1);
        Ok(Share { shares: self.clone(), project: project.clone() })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<ProjectId, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut counts = self.shares.counts();
        if let Some(count) = counts.get_mut(&self.project) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.project);
            }
        }
    }
}
