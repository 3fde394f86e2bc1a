//! Runs one list of queues with a filter at a time for each project of this process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Mutex as AsyncMutex;

use crate::domain::ProjectId;

/// The locks of the projects that list queues with a filter.
///
/// Requests of a project wait in the order in which they arrived. None is refused: the requests in
/// front of it are bounded, and one whose client disconnects stops waiting.
#[derive(Debug, Default)]
pub(super) struct FilterTurns(Mutex<HashMap<ProjectId, Weak<AsyncMutex<()>>>>);

impl FilterTurns {
    /// Returns the lock that a project's list with a filter holds while it runs.
    pub(super) fn of(&self, project: &ProjectId) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(project).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(AsyncMutex::new(()));
        turns.insert(project.clone(), Arc::downgrade(&turn));
        turn
    }

    /// Returns the number of locks that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}
