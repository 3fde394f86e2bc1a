//! The index of due queues: one sorted set in each slot, with the queues of the slot in which something will be due, by
//! the time when. Scripts write it; `queue_settle` moves or removes what it has done.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::try_join_all;
use tokio::time::sleep;
use tracing::warn;

use super::RedisStore;
use super::keys;
use super::slots::due_key;
use crate::storage::Error;

/// How many slots are read at a time, in a cluster.
const SLOTS_PER_STEP: usize = 64;
/// How many due queues of a slot are read at a time.
const QUEUES_PER_STEP: usize = 64;
/// How long a reader leaves the store to others between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(5);

impl RedisStore {
    /// Applies what is due in all queues that the index names. A server of a cluster that does not answer is skipped.
    /// Returns how many queues were visited.
    pub(super) async fn apply_due(&self) -> Result<u64, Error> {
        let servers = self.connection.slots_by_server();
        if servers.is_empty() {
            return Err(Error::Unavailable("the servers of the cluster are not known".to_owned()));
        }
        let is_only_one = servers.len() == 1;
        let mut visited = 0;
        for slots in servers {
            match self.apply_due_in(&slots, &mut visited).await {
                Err(Error::Unavailable(reason)) if !is_only_one => {
                    warn!(reason, "the janitor skips the queues of a server that does not answer");
                }
                outcome => outcome?,
            }
        }
        Ok(visited)
    }

    /// The same in these slots, all of one server.
    async fn apply_due_in(&self, slots: &[u16], visited: &mut u64) -> Result<(), Error> {
        for step in slots.chunks(SLOTS_PER_STEP) {
            let mut time = self.connection.command_on(step[0], "TIME", &[]).await?;
            let now_us = time.number()? * 1_000_000 + time.number()?;
            let due = try_join_all(step.iter().map(|slot| self.due_queues(*slot, now_us, 0))).await?;
            for (slot, tags) in step.iter().zip(due) {
                if !tags.is_empty() {
                    *visited += self.apply_due_in_slot(*slot, now_us, tags).await?;
                }
            }
            sleep(STEP_PAUSE).await;
        }
        Ok(())
    }

    /// Visits each due queue of a slot once. Queues that stay due, for instance because their dead letters wait, are passed
    /// over afterwards.
    async fn apply_due_in_slot(&self, slot: u16, now_us: u64, first: Vec<String>) -> Result<u64, Error> {
        let (mut seen, mut passed, mut tags) = (HashSet::new(), 0, first);
        while !tags.is_empty() {
            let read = tags.len();
            tags.retain(|tag| seen.insert(tag.clone()));
            passed += read - tags.len();
            for tag in &tags {
                self.apply_due_in_queue(slot, tag).await?;
            }
            sleep(STEP_PAUSE).await;
            tags = self.due_queues(slot, now_us, passed).await?;
        }
        Ok(seen.len() as u64)
    }

    async fn apply_due_in_queue(&self, slot: u16, tag: &str) -> Result<(), Error> {
        let Some(queue) = keys::queue_of_tag(tag) else {
            warn!(tag, "the index of due queues names something that is no queue");
            return self.connection.command("ZREM", &due_key(slot), &[tag]).await.map(drop);
        };
        match self.tidy_queue(&queue).await {
            // One queue that cannot be read must not keep the janitor from all others.
            Err(Error::Corrupt(reason)) => warn!(%queue, reason, "the janitor passes over a queue"),
            outcome => outcome?,
        }
        Ok(())
    }

    /// Some queues of a slot that are due, as the index names them, behind so many others.
    async fn due_queues(&self, slot: u16, now_us: u64, passed: usize) -> Result<Vec<String>, Error> {
        let (key, now, passed, limit) =
            (due_key(slot), now_us.to_string(), passed.to_string(), QUEUES_PER_STEP.to_string());
        let words = ["-inf", &now, "LIMIT", &passed, &limit];
        let mut reply = self.connection.command("ZRANGEBYSCORE", &key, &words).await?;
        let mut tags = Vec::new();
        while !reply.is_empty() {
            tags.push(reply.text()?);
        }
        Ok(tags)
    }
}
