//! Budgets for memory that clients can make the process hold: request bodies that are arriving,
//! responses and events that clients have not accepted, and messages on their way to subscribers.
//!
//! A project may hold at most as many bytes as are left for the other projects. So a project alone
//! gets half of a budget, and clients of one project that never finish leave memory for the others.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::HashMap;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;

use sukkal_domain::ProjectId;

/// A number of bytes that all projects share. Clones are the same.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    bytes_max: usize,
    /// Number of bytes that are held, to be read without the lock.
    bytes: AtomicUsize,
    held: Mutex<Held>,
    released: Notify,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    by_project: HashMap<ProjectId, usize>,
}

/// The bytes of a budget that one request or delivery holds. Dropping the share releases them.
#[derive(Debug)]
pub struct MemoryShare {
    budget: MemoryBudget,
    project: ProjectId,
    bytes: Mutex<usize>,
}

/// The project may not hold as many bytes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("other projects and requests use the memory")]
pub struct BudgetExceeded;

impl MemoryBudget {
    /// Creates a budget of `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(SharedBudget {
            bytes_max,
            bytes: AtomicUsize::new(0),
            held: Mutex::default(),
            released: Notify::new(),
        }))
    }

    /// Creates an empty share for this project.
    #[must_use]
    pub fn share(&self, project: &ProjectId) -> MemoryShare {
        MemoryShare { budget: self.clone(), project: project.clone(), bytes: Mutex::default() }
    }

    /// Returns whether the project may hold no further byte now.
    #[must_use]
    pub fn is_used_up(&self, project: &ProjectId) -> bool {
        // A project may hold half of the budget if others hold nothing.
        if self.0.bytes.load(Ordering::Relaxed) < self.0.bytes_max / 2 {
            return false;
        }
        let held = self.0.held.lock();
        held.bytes > 0 && !self.has_room(&held, project, 1)
    }

    fn has_room(&self, held: &Held, project: &ProjectId, bytes: usize) -> bool {
        held.bytes_of(project) + bytes <= self.0.bytes_max.saturating_sub(held.bytes + bytes)
    }
}

impl Held {
    fn bytes_of(&self, project: &ProjectId) -> usize {
        self.by_project.get(project).copied().unwrap_or_default()
    }
}

impl MemoryShare {
    /// Takes more bytes of the budget. Fails if the project may not hold as many now.
    pub fn take(&self, bytes: usize) -> Result<(), BudgetExceeded> {
        // A share without bytes is not released, so it must leave nothing behind.
        if bytes == 0 {
            return Ok(());
        }
        let mut held = self.budget.0.held.lock();
        // A share that is alone gets all it asks for. Otherwise a request larger than the budget
        // would never be served.
        if held.bytes > 0 && !self.budget.has_room(&held, &self.project, bytes) {
            return Err(BudgetExceeded);
        }
        self.add(&mut held, bytes);
        Ok(())
    }

    /// Takes more bytes of the budget, even if the project may not hold as many now.
    pub fn take_in_any_case(&self, bytes: usize) {
        if bytes > 0 {
            self.add(&mut self.budget.0.held.lock(), bytes);
        }
    }

    fn add(&self, held: &mut Held, bytes: usize) {
        held.bytes += bytes;
        self.budget.0.bytes.store(held.bytes, Ordering::Relaxed);
        *held.by_project.entry(self.project.clone()).or_default() += bytes;
        *self.bytes.lock() += bytes;
    }

    /// Waits until the project may hold the bytes, and takes them.
    pub async fn take_when_possible(&self, bytes: usize) {
        loop {
            let mut released = pin!(self.budget.0.released.notified());
            released.as_mut().enable();
            if self.take(bytes).is_ok() {
                return;
            }
            released.await;
        }
    }

    /// Returns the number of bytes that the share holds.
    #[must_use]
    pub fn bytes(&self) -> usize {
        *self.bytes.lock()
    }

    /// Releases all bytes of the share.
    pub fn release(&self) {
        let bytes = std::mem::take(&mut *self.bytes.lock());
        if bytes == 0 {
            return;
        }
        let mut held = self.budget.0.held.lock();
        held.bytes -= bytes;
        self.budget.0.bytes.store(held.bytes, Ordering::Relaxed);
        match held.bytes_of(&self.project) - bytes {
            0 => held.by_project.remove(&self.project),
            left => held.by_project.insert(self.project.clone(), left),
        };
        drop(held);
        self.budget.0.released.notify_waiters();
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_project_holds_at_most_what_is_left_for_the_others() {
        let budget = MemoryBudget::new(100);
        let [greedy, other] = ["greedy", "other"].map(|name| budget.share(&ProjectId::new(name).unwrap()));

        greedy.take(50).unwrap();
        greedy.take(1).unwrap_err();
        other.take(25).unwrap();
        other.take(1).unwrap_err();
        drop(greedy);
        other.take(1).unwrap();
        drop(other);
        budget.share(&ProjectId::new("idle").unwrap()).take(0).unwrap();

        assert_eq!(budget.0.held.lock().bytes, 0);
        assert!(budget.0.held.lock().by_project.is_empty());
    }

    #[test]
    fn a_waiting_share_is_served_when_another_share_is_released() {
        let budget = MemoryBudget::new(100);
        let project = ProjectId::new("p").unwrap();
        let (first, second) = (budget.share(&project), budget.share(&project));
        first.take(200).unwrap();

        let mut waiting = pin!(second.take_when_possible(10));
        assert_eq!(waiting.as_mut().now_or_never(), None);
        first.release();

        assert_eq!(waiting.now_or_never(), Some(()));
        assert_eq!(budget.0.held.lock().bytes, 10);
    }
}
