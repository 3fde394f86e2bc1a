//! Lanes: how a post whose answer was lost is recognised when it is sent again.
//!
//! A lane belongs to one post at a time and counts its posts. Redis remembers the last answer of
//! each lane for a while, so there is one small record per lane, not one per post.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// All lanes of this process.
#[derive(Clone)]
pub(super) struct Lanes {
    process: String,
    lanes: Arc<Mutex<Free>>,
}

#[derive(Default)]
struct Free {
    sequences: Vec<(usize, u64)>,
    made: usize,
}

/// A lane, held for one post.
pub(super) struct Lane {
    lanes: Lanes,
    number: usize,
    sequence: u64,
}

impl Lanes {
    pub(super) fn new() -> Self {
        Self { process: Uuid::new_v4().simple().to_string(), lanes: Arc::default() }
    }

    /// A free lane; the one used last, so that few are ever made.
    pub(super) fn take(&self) -> Lane {
        let mut free = self.free();
        let (number, sequence) = free.sequences.pop().unwrap_or_else(|| {
            free.made += 1;
            (free.made, 1)
        });
        Lane { lanes: self.clone(), number, sequence }
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lane {
    /// What no other lane is called.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.lanes.process, self.number)
    }

    /// Which post of the lane this is.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.lanes.free().sequences.push((self.number, self.sequence + 1));
    }
}
