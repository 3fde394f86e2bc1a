//! The last changes of the subscriptions of a queue, by which a deliverer loads only those that
//! have changed.
//!
//! A change has an entry of 32 bytes: the version of the subscriptions before it (8), the version
//! after it (8) and the id of the subscription. Processes of an earlier release change the version
//! and add no entry, so entries say what has changed only as long as each begins where the one
//! before it ends.

use bytes::Buf;

use super::delivery_record::ID_BYTES;
use sukkal_domain::SubscriptionId;

/// Maximum number of changes that are kept.
pub(super) const CHANGES_MAX: usize = 64;
const ENTRY_BYTES: usize = 8 + 8 + ID_BYTES;

/// Returns the changes with one more, which is between these versions.
pub(super) fn with_change(changes: &[u8], before: u64, version: u64, id: SubscriptionId) -> Vec<u8> {
    let kept = &changes[changes.len().saturating_sub((CHANGES_MAX - 1) * ENTRY_BYTES)..];
    [kept, &before.to_be_bytes(), &version.to_be_bytes(), id.as_bytes()].concat()
}

/// Returns the subscriptions that have changed between two versions, the last one first. Returns
/// `None` if the changes do not say that.
pub(super) fn changed_between(changes: &[u8], since: u64, version: u64) -> Option<Vec<SubscriptionId>> {
    let (mut reached, mut ids) = (version, Vec::new());
    for mut entry in changes.rchunks_exact(ENTRY_BYTES) {
        if reached <= since {
            break;
        }
        let before = entry.get_u64();
        if entry.get_u64() != reached {
            return None;
        }
        ids.push(SubscriptionId::from_bytes(entry.try_into().ok()?));
        reached = before;
    }
    (reached == since).then_some(ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_changes_are_known_from_each_version_between_them() {
        let ids: Vec<_> = (0..100).map(|_| SubscriptionId::random()).collect();
        let version = |number: usize| 7 * number as u64;
        let add = |changes: Vec<u8>, (at, id): (usize, &SubscriptionId)| {
            with_change(&changes, version(at), version(at + 1), *id)
        };
        let changes = ids.iter().enumerate().fold(Vec::new(), add);

        for since in 36..=100 {
            let expected: Vec<_> = ids[since..].iter().rev().copied().collect();
            assert_eq!(changed_between(&changes, version(since), version(100)), Some(expected), "{since}");
        }
        assert_eq!(changed_between(&changes, version(35), version(100)), None, "there are only 64");
        assert_eq!(changed_between(&changes, version(50) + 1, version(100)), None, "no change begins there");
        assert_eq!(changed_between(&changes, version(99), version(101)), None, "a change has no entry");
        assert_eq!(changed_between(&[], 1, 1), Some(Vec::new()));
        assert_eq!(changed_between(&[], 1, 2), None);
        let after_a_gap = with_change(&changes, version(101), version(102), ids[0]);
        assert_eq!(changed_between(&after_a_gap, version(101), version(102)), Some(vec![ids[0]]));
        assert_eq!(changed_between(&after_a_gap, version(100), version(102)), None);
    }
}
