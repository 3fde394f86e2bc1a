//! Retry slots: how Redis recognizes a post that is sent again because its reply was lost.
//!
//! A retry slot belongs to one post at a time and counts its posts. Redis keeps the last reply of
//! each slot for a while. So there is one small record per slot and not one per post.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

/// All retry slots of this process.
#[derive(Clone)]
pub(super) struct RetrySlots {
    process: String,
    free_slots: Arc<Mutex<FreeSlots>>,
}

#[derive(Default)]
struct FreeSlots {
    /// Name and next sequence number of each free slot.
    sequences: Vec<(String, u64)>,
    /// Number of slots created so far.
    created: usize,
}

/// A retry slot that one post uses.
pub(super) struct RetrySlot {
    free_slots: Arc<Mutex<FreeSlots>>,
    name: String,
    sequence: u64,
}

impl RetrySlots {
    pub(super) fn new() -> Self {
        Self { process: Uuid::new_v4().simple().to_string(), free_slots: Arc::default() }
    }

    /// Returns a free slot. It prefers the one that was used last, so that few are ever created.
    pub(super) fn acquire(&self) -> RetrySlot {
        let mut free = self.free_slots.lock();
        let (name, sequence) = free.sequences.pop().unwrap_or_else(|| {
            free.created += 1;
            (format!("{}-{}", self.process, free.created), 1)
        });
        RetrySlot { free_slots: self.free_slots.clone(), name, sequence }
    }
}

impl RetrySlot {
    /// Returns the name of the slot, which is unique among all processes.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the sequence number of the post in the slot.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Drop for RetrySlot {
    fn drop(&mut self) {
        self.free_slots.lock().sequences.push((mem::take(&mut self.name), self.sequence + 1));
    }
}
