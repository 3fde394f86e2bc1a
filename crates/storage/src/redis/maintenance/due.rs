//! The index of due queues: one sorted set in each slot, with the queues in which something will be
//! due, by that time. Scripts write it. `queue_apply_due` updates or removes the queues that it has
//! visited.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::sleep;
use tracing::warn;

use crate::Error;
use crate::redis::RedisStore;
use crate::redis::keys::{self, KeyName, QueueKeys};
use crate::redis::reply::Reply;
use sukkal_domain::QueueId;

/// Number of slots that are read at a time, in a cluster.
const SLOTS_PER_STEP: usize = 64;
/// Number of due queues of a slot that are read at a time.
const QUEUES_PER_STEP: usize = 64;
/// Maximum number of due queues of a slot that are searched for outboxes.
const QUEUES_SEARCHED_MAX: usize = 10_000;
/// Pause between two steps, which leaves the store to other operations.
const STEP_PAUSE: Duration = Duration::from_millis(5);

impl RedisStore {
    /// Applies the due changes of all queues in the index. Skips a server of a cluster that does
    /// not answer. Returns the number of queues visited.
    pub(in crate::redis) async fn apply_all_due(&self) -> Result<u64, Error> {
        let servers = self.connection.servers.slots_by_server();
        if servers.is_empty() {
            return Err(servers_unknown());
        }
        let is_only_one = servers.len() == 1;
        let mut visited = 0;
        for slots in servers {
            match self.apply_due_on_server(&slots, &mut visited).await {
                Err(Error::Unavailable(reason)) if !is_only_one => {
                    warn!(reason, "the janitor skips the queues of a server that does not answer");
                }
                outcome => outcome?,
            }
        }
        Ok(visited)
    }

    /// The same in these slots, which are all of one server.
    async fn apply_due_on_server(&self, slots: &[u16], visited: &mut u64) -> Result<(), Error> {
        for step in slots.chunks(SLOTS_PER_STEP) {
            let mut time = self.connection.command_on(step[0], "TIME", &[]).await?;
            let now_us = time.number()? * 1_000_000 + time.number()?;
            let due = try_join_all(step.iter().map(|slot| self.due_queues(*slot, now_us, 0, QUEUES_PER_STEP))).await?;
            for (slot, tags) in step.iter().zip(due) {
                if !tags.is_empty() {
                    *visited += self.apply_due_in_slot(*slot, now_us, tags).await?;
                }
            }
            sleep(STEP_PAUSE).await;
        }
        Ok(())
    }

    /// Visits each due queue of a slot once. A queue that stays due, for instance because its dead
    /// letters cannot be forwarded, is skipped afterwards.
    async fn apply_due_in_slot(&self, slot: u16, now_us: u64, first: Vec<String>) -> Result<u64, Error> {
        let (mut visited, mut skipped, mut tags) = (HashSet::new(), 0, first);
        while !tags.is_empty() {
            let read = tags.len();
            tags.retain(|tag| visited.insert(tag.clone()));
            skipped += read - tags.len();
            for tag in &tags {
                self.apply_due_in_queue(slot, tag).await?;
            }
            sleep(STEP_PAUSE).await;
            tags = self.due_queues(slot, now_us, skipped, QUEUES_PER_STEP).await?;
        }
        Ok(visited.len() as u64)
    }

    async fn apply_due_in_queue(&self, slot: u16, tag: &str) -> Result<(), Error> {
        let Some(queue) = keys::queue_of_hash_tag(tag) else {
            warn!(tag, "the index of due queues has a member that is not a queue; it is removed");
            return self.connection.command("ZREM", &keys::due(slot), &[tag]).await.map(drop);
        };
        match self.maintain_queue(&queue).await {
            // One queue that cannot be read must not keep the janitor from the others.
            Err(Error::Corrupt(reason)) => warn!(%queue, reason, "the janitor skips a queue that cannot be read"),
            outcome => outcome?,
        }
        Ok(())
    }

    /// Returns whether deleted queues have messages to forward. Until they are forwarded, these
    /// queues are due. May return true if very many queues are due.
    pub(crate) async fn has_outboxes_of_deleted_queues(&self) -> Result<bool, Error> {
        let servers = self.connection.servers.slots_by_server();
        if servers.is_empty() {
            return Err(servers_unknown());
        }
        for slots in servers {
            let mut time = self.connection.command_on(slots[0], "TIME", &[]).await?;
            let now_us = time.number()? * 1_000_000 + time.number()?;
            for step in slots.chunks(SLOTS_PER_STEP) {
                let limit = QUEUES_SEARCHED_MAX;
                let due = try_join_all(step.iter().map(|slot| self.due_queues(*slot, now_us, 0, limit))).await?;
                for tags in due {
                    if tags.len() == limit {
                        return Ok(true);
                    }
                    let queues: Vec<QueueId> = tags.iter().filter_map(|tag| keys::queue_of_hash_tag(tag)).collect();
                    for queue in queues {
                        if self.is_deleted_with_outbox(&queue).await? {
                            return Ok(true);
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    async fn is_deleted_with_outbox(&self, queue: &QueueId) -> Result<bool, Error> {
        let keys = QueueKeys::of(queue);
        let has_outbox = self.connection.command("EXISTS", &keys.key(KeyName::Outbox), &[]).await?.number()? > 0;
        Ok(has_outbox && self.version_of_queue(queue).await?.is_none())
    }

    /// Returns the hash tags of some due queues of a slot, after skipping the first ones.
    async fn due_queues(&self, slot: u16, now_us: u64, skipped: usize, limit: usize) -> Result<Vec<String>, Error> {
        let (key, now, skipped, limit) = (keys::due(slot), now_us.to_string(), skipped.to_string(), limit.to_string());
        let args = ["-inf", &now, "LIMIT", &skipped, &limit];
        let mut reply = self.connection.command("ZRANGEBYSCORE", &key, &args).await?;
        reply.read_all(Reply::text)
    }
}

fn servers_unknown() -> Error {
    Error::Unavailable("the servers of the cluster are not known".to_owned())
}
