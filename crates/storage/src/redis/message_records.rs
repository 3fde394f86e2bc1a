//! Reads the records of messages whose entries a script has returned.

use bytes::Bytes;

use super::RedisStore;
use super::keys::{KeyName, QueueKeys};
use super::reply::Reply;
use crate::entry::{Entry, FRESH_BYTES};
use crate::key::{KEY_BYTES, id_of};
use crate::{Error, REPLY_BYTES_MAX, record};
use sukkal_domain::{Message, QueueId};

impl RedisStore {
    /// Returns the messages of the entries that are left in a reply, with ages as of `now_us`;
    /// `None` for a message that has been deleted since.
    pub(super) async fn read_messages(
        &self,
        queue: &QueueId,
        now_us: u64,
        reply: Reply,
    ) -> Result<Vec<Option<Message>>, Error> {
        let entries = read_entries(reply)?;
        self.messages_of(queue, now_us, &entries).await
    }

    /// Returns the messages of these entries, with ages as of `now_us`; `None` for a message that
    /// has been deleted since.
    pub(super) async fn messages_of(
        &self,
        queue: &QueueId,
        now_us: u64,
        entries: &[Entry],
    ) -> Result<Vec<Option<Message>>, Error> {
        let mut messages = Vec::with_capacity(entries.len());
        let mut rest = entries;
        while !rest.is_empty() {
            let (next, rest_after) = rest.split_at(fitting_count(rest));
            let keys: Bytes = next.iter().flat_map(|entry| entry.key).collect();
            let keys = (0..next.len()).map(|at| keys.slice(at * KEY_BYTES..(at + 1) * KEY_BYTES));
            let records = self.values_of(queue, &QueueKeys::of(queue).key(KeyName::Messages), keys).await?;
            for (entry, record) in next.iter().zip(records) {
                let read = |record: Bytes| record::message(id_of(queue, &entry.key)?, entry, &record, now_us);
                messages.push(record.map(read).transpose()?);
            }
            rest = rest_after;
        }
        Ok(messages)
    }
}

/// Reads the entries that are left in a reply. An item is one entry, or those of several messages
/// that were never claimed.
pub(super) fn read_entries(mut reply: Reply) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        let item = reply.bytes()?;
        let bytes = if item.len().is_multiple_of(FRESH_BYTES) { FRESH_BYTES } else { item.len() };
        for entry in item.chunks(bytes) {
            entries.push(Entry::decode(entry)?);
        }
    }
    Ok(entries)
}

/// Returns how many of the first entries have records that fit into one reply together: at least
/// one.
pub(super) fn fitting_count(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let too_large = entries.iter().position(|entry| {
        bytes += entry.size.bytes_max();
        bytes > REPLY_BYTES_MAX
    });
    too_large.unwrap_or(entries.len()).max(1)
}
