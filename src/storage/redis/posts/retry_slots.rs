//! Retry slots: how Redis recognizes a post that is sent again because its reply was lost.
//!
//! A retry slot belongs to one post at a time and counts its posts. Redis keeps the last reply of
//! each slot for a while. So there is one small record per slot and not one per post.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// All retry slots of this process.
#[derive(Clone)]
pub(super) struct RetrySlots {
    process: String,
    free_slots: Arc<Mutex<FreeSlots>>,
}

#[derive(Default)]
struct FreeSlots {
    /// Number and next sequence number of each free slot.
    sequences: Vec<(usize, u64)>,
    /// Number of slots created so far.
    created: usize,
}

/// A retry slot that one post uses.
pub(super) struct RetrySlot {
    owner: RetrySlots,
    number: usize,
    sequence: u64,
}

impl RetrySlots {
    pub(super) fn new() -> Self {
        Self { process: Uuid::new_v4().simple().to_string(), free_slots: Arc::default() }
    }

    /// Returns a free slot. It prefers the one that was used last, so that few are ever created.
    pub(super) fn acquire(&self) -> RetrySlot {
        let mut free = self.lock();
        let (number, sequence) = free.sequences.pop().unwrap_or_else(|| {
            free.created += 1;
            (free.created, 1)
        });
        RetrySlot { owner: self.clone(), number, sequence }
    }

    fn lock(&self) -> MutexGuard<'_, FreeSlots> {
        self.free_slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RetrySlot {
    /// Returns the name of the slot, which is unique among all processes.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.owner.process, self.number)
    }

    /// Returns the sequence number of the post in the slot.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for RetrySlot {
    fn drop(&mut self) {
        self.owner.lock().sequences.push((self.number, self.sequence + 1));
    }
}
