//! The row of a queue: what its owner has set.

use bytes::{BufMut, Bytes};

use crate::embedded::engine::error::damaged;
use crate::moved_messages::QueueEpoch;
use crate::policy::QueuePolicy;
use crate::{Error, record};
use sukkal_domain::{PoolName, Queue, Revision};

const ROW_HEAD: usize = 18;
/// Contents number of a queue that is in a pool. No contents have it.
const PLACED: u64 = 0;

/// A queue in the registry, without its metadata.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct QueueRow {
    /// The number under which the contents of the queue are stored.
    pub(crate) number: u64,
    pub(crate) revision: Revision,
    pub(crate) policy: QueuePolicy,
}

impl QueueRow {
    /// Returns the epoch of the queue. Each creation and each purge takes a new contents number.
    pub(crate) fn epoch(&self) -> QueueEpoch {
        QueueEpoch(self.number)
    }

    /// Encodes a row from the encoded policy and metadata.
    pub(crate) fn encode(number: u64, revision: Revision, policy: &Bytes, metadata: &Bytes) -> Vec<u8> {
        let mut row = Vec::with_capacity(ROW_HEAD + policy.len() + metadata.len());
        row.put_u64(number);
        row.put_u64(revision.0);
        row.put_u16(u16::try_from(policy.len()).expect("a queue's name is short"));
        row.put_slice(policy);
        row.put_slice(metadata);
        row
    }

    /// Encodes the row of a queue that is in this pool, under the epoch of its location.
    pub(crate) fn located(epoch: u64, pool: &PoolName) -> Vec<u8> {
        let pool = Bytes::copy_from_slice(pool.as_str().as_bytes());
        Self::encode(PLACED, Revision(epoch), &Bytes::new(), &pool)
    }

    /// Returns whether the queue is in a pool. Then the row has the name of the pool instead of
    /// metadata.
    pub(crate) fn is_located(&self) -> bool {
        self.number == PLACED
    }

    /// Returns an encoded row with another contents number.
    pub(crate) fn renumbered(row: &[u8], number: u64) -> Vec<u8> {
        [&number.to_be_bytes()[..], row.get(8..).unwrap_or_default()].concat()
    }

    /// Returns the numbers of a damaged row.
    pub(crate) fn decode_head(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        let revision = Revision(u64::from_be_bytes(*rest.first_chunk()?));
        Some(Self { number: u64::from_be_bytes(*number), revision, policy: QueuePolicy::default() })
    }

    /// Returns the row and the encoded metadata.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), Error> {
        let row = || {
            let (number, rest) = bytes.split_first_chunk()?;
            let (revision, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (policy, metadata) = rest.split_at_checked(u16::from_be_bytes(*length).into())?;
            let revision = Revision(u64::from_be_bytes(*revision));
            Some((
                Self { number: u64::from_be_bytes(*number), revision, policy: QueuePolicy::decode(policy)? },
                metadata,
            ))
        };
        row().ok_or_else(|| damaged("a queue"))
    }
}

/// Decodes the queue with its metadata.
///
/// # Errors
///
/// [`Error::NoQueue`] if the queue is in a pool.
pub(crate) fn read_queue(row: &[u8]) -> Result<Queue, Error> {
    let (row, metadata) = QueueRow::decode(row)?;
    if row.is_located() {
        return Err(Error::NoQueue);
    }
    Ok(Queue { metadata: record::metadata(metadata)?, revision: row.revision })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Earlier releases have stored a limit of 0, and then delivered no message.
    #[test]
    fn a_stored_limit_of_0_is_no_limit() {
        let policy =
            |limit: u8| QueuePolicy::decode(&[&[0, 0, 0, 0, limit, 0, 0, 0, 0], &b"dead"[..]].concat()).unwrap();

        assert_eq!(policy(0), QueuePolicy::default());
        assert_eq!(policy(1).dead_letters.map(|dead_letters| dead_letters.count_max), Some(1));
    }
}
