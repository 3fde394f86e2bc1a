//! The row of a queue's deliveries.

use bytes::{Buf, BufMut};

use crate::deliveries::DELIVERY_LEASE_DURATION;
use crate::embedded::engine::error::damaged;
use crate::task_lease::TaskLease;
use crate::{Error, FeedState};

const NUMBERS_BYTES: usize = 32;

/// The delivery lease of a queue, and what its last holder has seen. Ranks and times are in
/// microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryRow {
    /// Changes with each change of a subscription.
    pub(crate) version: u64,
    /// The last visible rank, and the version, when the last holder ended its lease.
    pub(crate) seen_last: u64,
    pub(crate) seen_version: u64,
    /// When the first retry is due; `u64::MAX` if there is none.
    pub(crate) next_retry: u64,
    pub(crate) lease: TaskLease,
}

impl DeliveryRow {
    /// Returns the row of a queue whose first subscription is created now. Its fences and versions
    /// follow those of subscriptions that have been deleted.
    pub(crate) fn new(now_us: u64) -> Self {
        Self { version: now_us, lease: TaskLease::with_fences_after(now_us), ..Self::default() }
    }

    /// Returns whether work is due in a queue with subscriptions and this last visible rank.
    pub(crate) fn is_due(&self, last: u64, now_us: u64) -> bool {
        if self.lease.has_holder() {
            return !self.lease.is_live(now_us, DELIVERY_LEASE_DURATION);
        }
        last > self.seen_last || self.version != self.seen_version || now_us >= self.next_retry
    }

    /// Returns the row after its lease has ended, for a holder that has seen this state of the
    /// feed.
    pub(crate) fn ended(&self, seen: &FeedState, next_retry_us: Option<u64>) -> Self {
        Self {
            version: self.version,
            seen_last: seen.last.micros(),
            seen_version: seen.subscriptions_version,
            next_retry: next_retry_us.unwrap_or(u64::MAX),
            lease: self.lease.ended(),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * NUMBERS_BYTES);
        for number in [self.version, self.seen_last, self.seen_version, self.next_retry] {
            bytes.put_u64(number);
        }
        bytes.extend(self.lease.encode());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let invalid = || damaged("the deliveries of a queue");
        let (mut numbers, lease) = bytes.split_at_checked(NUMBERS_BYTES).ok_or_else(invalid)?;
        Ok(Self {
            version: numbers.get_u64(),
            seen_last: numbers.get_u64(),
            seen_version: numbers.get_u64(),
            next_retry: numbers.get_u64(),
            lease: TaskLease::decode(lease).ok_or_else(invalid)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const NOW_US: u64 = 1_000_000_000;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let lease = TaskLease::default().taken(Uuid::from_u128(1), NOW_US, DELIVERY_LEASE_DURATION).unwrap();
        let row = DeliveryRow { version: 1, seen_last: 2, seen_version: 3, next_retry: 4, lease };

        assert_eq!(DeliveryRow::decode(&row.encode()).unwrap(), row);
        assert!(DeliveryRow::decode(&row.encode()[1..]).is_err());
    }

    #[test]
    fn work_is_due_for_what_is_unseen_and_after_a_crash() {
        let seen = FeedState { subscriptions_version: NOW_US, ..FeedState::default() };
        let new = DeliveryRow::new(NOW_US);
        let ended = new.ended(&seen, Some(NOW_US + 9));
        let lease = ended.lease.taken(Uuid::from_u128(1), NOW_US, DELIVERY_LEASE_DURATION).unwrap();
        let leased = DeliveryRow { lease, ..new };

        assert!(new.is_due(0, NOW_US), "a new subscription");
        assert!(!ended.is_due(0, NOW_US + 8));
        assert!(ended.is_due(0, NOW_US + 9), "a retry");
        assert!(ended.is_due(1, NOW_US), "a message");
        assert!(DeliveryRow { version: NOW_US + 1, ..ended }.is_due(0, NOW_US), "a changed subscription");
        assert!(!leased.is_due(1, NOW_US + 6_999_999));
        assert!(leased.is_due(0, NOW_US + 7_000_000), "an expired lease");
    }
}
