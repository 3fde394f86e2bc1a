//! Scripts answer entries; this reads the records that belong to them, with plain commands.
//!
//! Lua in Redis hashes every byte of every string that it meets, so bodies do not pass through scripts.

use bytes::Bytes;
use fred::types::Value;

use super::RedisStore;
use super::keys::QueueKeys;
use super::reply::Reply;
use crate::domain::{Message, QueueId};
use crate::storage::entry::Entry;
use crate::storage::key::id_of;
use crate::storage::{ANSWER_BYTES_MAX, Error, record};

impl RedisStore {
    /// The messages of the entries that are left in an answer, as they are at `now_us`; `None` for one that is gone.
    pub(super) async fn read_messages(
        &self,
        queue: &QueueId,
        now_us: u64,
        reply: Reply,
    ) -> Result<Vec<Option<Message>>, Error> {
        let entries = read_entries(reply)?;
        self.messages_of(queue, now_us, &entries).await
    }

    /// The messages of these entries, as they are at `now_us`; `None` for one that is gone.
    pub(super) async fn messages_of(
        &self,
        queue: &QueueId,
        now_us: u64,
        entries: &[Entry],
    ) -> Result<Vec<Option<Message>>, Error> {
        let mut messages = Vec::with_capacity(entries.len());
        let mut rest = entries;
        while !rest.is_empty() {
            let (next, behind) = rest.split_at(fitting(rest));
            let mut records = self.records(queue, next).await?;
            for entry in next {
                let read = |record: Bytes| record::message(id_of(queue, &entry.key)?, entry, &record, now_us);
                messages.push(records.bytes_or_nil().map(read).transpose()?);
            }
            rest = behind;
        }
        Ok(messages)
    }

    /// The record of each entry, nil for one that is gone.
    async fn records(&self, queue: &QueueId, entries: &[Entry]) -> Result<Reply, Error> {
        let keys = entries.iter().map(|entry| Value::Bytes(Bytes::copy_from_slice(&entry.key)));
        self.connection.command_with("HMGET", &QueueKeys::of(queue).messages(), keys).await
    }
}

/// The entries that are left in an answer.
pub(super) fn read_entries(mut reply: Reply) -> Result<Vec<Entry>, Error> {
    let mut entries = Vec::new();
    while !reply.is_empty() {
        entries.push(Entry::decode(&reply.bytes()?)?);
    }
    Ok(entries)
}

/// How many of the entries, the first, have records that fit into one answer: one at least.
fn fitting(entries: &[Entry]) -> usize {
    let mut bytes = 0;
    let too_large = entries.iter().position(|entry| {
        bytes += entry.size.bytes_max();
        bytes > ANSWER_BYTES_MAX
    });
    too_large.unwrap_or(entries.len()).max(1)
}
