//! Task leases: at any time, at most one process works on a task of a queue.
//!
//! A task has a lease from its creation to its end. A process takes the lease before it works on
//! the task, and gets a fence: a number that is higher than that of any earlier holder. Each step
//! of the task presents the fence, and has no effect if another process has taken the lease since.
//! So a process that was slow or cut off can do no harm when it wakes up. A step with the current
//! fence renews the lease.
//!
//! If the holder crashes, the lease expires, and the maintenance of any process finds the task.
//! `scripts/shared/lease.lua` has the same rules.
//!
//! The deliveries of a queue have a lease with the same rules, which lasts longer. It can end
//! before it expires, and be taken again.

use std::time::Duration;

use bytes::BufMut;
use uuid::Uuid;

/// Time after which a lease expires unless its holder renews it.
pub(super) const TASK_LEASE_DURATION: Duration = Duration::from_secs(10);

/// Number of a holder of a lease. Each holder has a higher one than those before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseFence(pub(super) u64);

/// A lease as it is stored: the fence, the time (µs) when it expires, and the holder. The time is 0
/// if there is no holder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskLease {
    fence: u64,
    expires_us: u64,
    holder: [u8; 16],
}

impl TaskLease {
    /// Returns the lease for this holder, with its fence; `None` if another holder has it.
    pub(super) fn taken(self, holder: Uuid, now_us: u64, duration: Duration) -> Option<Self> {
        let is_own = self.holder == *holder.as_bytes();
        if !is_own && self.is_live(now_us, duration) {
            return None;
        }
        let fence = if is_own { self.fence } else { self.fence + 1 };
        Some(Self { fence, expires_us: expiry_us(now_us, duration), holder: *holder.as_bytes() })
    }

    /// Returns the renewed lease; `None` if it has another fence.
    pub(super) fn renewed(self, fence: LeaseFence, now_us: u64, duration: Duration) -> Option<Self> {
        (self.fence == fence.0).then(|| Self { expires_us: expiry_us(now_us, duration), ..self })
    }

    /// Returns whether a holder has the lease. A clock that has stepped back does not prolong it.
    pub(super) fn is_live(self, now_us: u64, duration: Duration) -> bool {
        now_us < self.expires_us && self.expires_us <= expiry_us(now_us, duration)
    }

    /// Returns a lease without a holder, whose fences are higher than this number.
    pub(super) fn with_fences_after(fence: u64) -> Self {
        Self { fence, ..Self::default() }
    }

    /// Returns the lease after its end. No holder has had or will have its fence.
    pub(super) fn ended(self) -> Self {
        Self::with_fences_after(self.fence + 1)
    }

    /// Returns whether there is a holder, even one whose lease has expired.
    pub(super) fn has_holder(self) -> bool {
        self.expires_us > 0
    }

    pub(super) fn holder(self) -> Uuid {
        Uuid::from_bytes(self.holder)
    }

    pub(super) fn fence(self) -> LeaseFence {
        LeaseFence(self.fence)
    }

    pub(super) fn encode(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(32);
        bytes.put_u64(self.fence);
        bytes.put_u64(self.expires_us);
        bytes.put_slice(&self.holder);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (fence, rest) = bytes.split_first_chunk()?;
        let (expires, holder) = rest.split_first_chunk()?;
        let holder = holder.try_into().ok()?;
        Some(Self { fence: u64::from_be_bytes(*fence), expires_us: u64::from_be_bytes(*expires), holder })
    }
}

fn expiry_us(now_us: u64, duration: Duration) -> u64 {
    now_us + u64::try_from(duration.as_micros()).expect("a lease is short")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_US: u64 = 1_000_000_000;

    fn taken(lease: TaskLease, holder: u128, now_us: u64) -> Option<TaskLease> {
        lease.taken(Uuid::from_u128(holder), now_us, TASK_LEASE_DURATION)
    }

    #[test]
    fn each_holder_has_a_higher_fence_than_the_one_before() {
        let first = taken(TaskLease::default(), 1, NOW_US).unwrap();
        assert_eq!(taken(first, 2, NOW_US + 9_999_999), None);
        assert_eq!(taken(first, 1, NOW_US).map(TaskLease::fence), Some(first.fence()));

        let second = taken(first, 2, NOW_US + 10_000_000).unwrap();

        assert!(second.fence() > first.fence());
        assert_eq!(second.renewed(first.fence(), NOW_US, TASK_LEASE_DURATION), None);
        let renewed = second.renewed(second.fence(), NOW_US + 15_000_000, TASK_LEASE_DURATION).unwrap();
        assert!(renewed.is_live(NOW_US + 24_000_000, TASK_LEASE_DURATION));
        assert_eq!(TaskLease::decode(&second.encode()), Some(second));
    }

    #[test]
    fn a_clock_that_steps_back_does_not_prolong_a_lease() {
        let lease = taken(TaskLease::default(), 1, NOW_US).unwrap();

        assert!(lease.is_live(NOW_US, TASK_LEASE_DURATION));
        assert!(!lease.is_live(NOW_US - 1, TASK_LEASE_DURATION));
    }

    #[test]
    fn a_lease_that_has_ended_has_no_holder_and_can_be_taken_with_a_higher_fence() {
        let first = taken(TaskLease::default(), 1, NOW_US).unwrap();
        let ended = first.ended();

        assert!(first.has_holder() && !ended.has_holder());
        assert_eq!(ended.renewed(first.fence(), NOW_US, TASK_LEASE_DURATION), None);
        for holder in [1, 2] {
            assert!(taken(ended, holder, NOW_US).unwrap().fence() > ended.fence());
        }
    }
}
