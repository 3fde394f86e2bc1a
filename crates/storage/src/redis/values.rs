//! Reads values of a queue with plain commands, mostly those whose names a script has returned.
//!
//! Lua in Redis hashes every byte of every string that it gets, so large values do not pass through
//! scripts. A queue in a pool may have been paused for a move before such a command. It has no
//! values then, although none was deleted.

use bytes::Bytes;
use fred::types::Value;

use super::RedisStore;
use super::reply::Reply;
use crate::{Error, QueueStore};
use sukkal_domain::QueueId;

impl RedisStore {
    /// Returns the values of these fields of a hash of the queue, `None` for one that has been
    /// deleted. The values must fit into one reply.
    pub(super) async fn values_of(
        &self,
        queue: &QueueId,
        key: &str,
        fields: impl IntoIterator<Item = Bytes>,
    ) -> Result<Vec<Option<Bytes>>, Error> {
        let fields: Vec<Value> = fields.into_iter().map(Value::Bytes).collect();
        let values = self.fields(key, &fields).await?;
        if values.iter().any(Option::is_none) && self.must_read_again(queue).await? {
            return self.fields(key, &fields).await;
        }
        Ok(values)
    }

    /// Runs a command that reads values of a key of the queue. Its reply is empty if there are
    /// none.
    pub(super) async fn read_values(
        &self,
        queue: &QueueId,
        command: &'static str,
        key: &str,
        args: &[&str],
    ) -> Result<Reply, Error> {
        let reply = self.connection.command(command, key, args).await?;
        if reply.is_empty() && self.must_read_again(queue).await? {
            return self.connection.command(command, key, args).await;
        }
        Ok(reply)
    }

    async fn fields(&self, key: &str, fields: &[Value]) -> Result<Vec<Option<Bytes>>, Error> {
        let mut reply = self.connection.command_with("HMGET", key, fields.iter().cloned()).await?;
        Ok(fields.iter().map(|_| reply.bytes_or_nil()).collect())
    }

    /// Returns whether values that were not found may be there: their queue may have been paused
    /// for a move that was undone since.
    ///
    /// Returns [`Error::NoQueue`] if the queue does not exist and operations require it to: it may
    /// be in another pool.
    async fn must_read_again(&self, queue: &QueueId) -> Result<bool, Error> {
        if !self.connection.requires_queues {
            return Ok(false);
        }
        self.get_queue(queue).await?.map(|_| true).ok_or(Error::NoQueue)
    }
}
