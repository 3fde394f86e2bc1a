//! Queues in Redis, and the register of a project's queue names.
//!
//! A queue and its project's register are in different slots, so creation and deletion take ordered steps
//! that may be repeated: register, then create; delete, then remove the registration. A registration has a
//! version, the queue is created under it, and a deletion leaves it in a tombstone. So no crash or race leaves a queue that is
//! not registered. A registered name without a queue is passed over by lists, and the janitor removes it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use tracing::warn;
use uuid::Uuid;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::messages::text;
use super::reply;
use super::script::{QUEUE_CREATE, QUEUE_DELETE, QUEUE_UPDATE};
use crate::domain::{Metadata, ProjectId, Queue, QueueId, QueueName, Revision};
use crate::storage::{Creation, Error, QueueListing, QueuePage, QueueStore, Update, record};

/// How long the tombstone of a deleted queue is kept, in seconds: longer than a command can be under way.
const TOMBSTONE_KEPT_S: &str = "86400";

/// How often a creation begins anew because a delete came in between.
const TRIES_MAX: usize = 32;

#[async_trait]
impl QueueStore for RedisStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        if self.get_queue(queue).await?.is_some() {
            return Ok(Creation::Existed);
        }
        let mut lowest = 0;
        for _ in 0..TRIES_MAX {
            let version = self.register(queue, lowest).await?;
            let args = [text(version), record::from_metadata(metadata), record::policy(metadata)];
            let mut reply = self.connection.run(&QUEUE_CREATE, &QueueKeys::of(queue), &args).await?;
            match reply.text()?.as_str() {
                "created" => return Ok(Creation::Created),
                "existed" => return Ok(Creation::Existed),
                // A deletion came in between, or the clock has stepped back since the last one.
                "ended" => lowest = reply.number()? + 1,
                kind => return Err(reply::unknown(QUEUE_CREATE.name, kind)),
            }
        }
        Err(Error::Unavailable(format!("queue {queue} is deleted faster than created")))
    }

    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        let key = QueueKeys::of(queue).queue();
        let mut reply = self.connection.command("HMGET", &key, &["v", "m"]).await?;
        match reply.text_or_nil()? {
            Some(revision) => Ok(Some(read_queue(reply::parse(&revision)?, &reply.bytes()?)?)),
            None => Ok(None),
        }
    }

    async fn update_queue(&self, queue: &QueueId, seen: Revision, metadata: &Metadata) -> Result<Update, Error> {
        let token = Bytes::copy_from_slice(Uuid::new_v4().as_bytes());
        let seen = Bytes::from(seen.0.to_string());
        let args = [seen, record::from_metadata(metadata), record::policy(metadata), token];
        let (kind, _) = self.run_settled(&QUEUE_UPDATE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(Update::Done),
            "stale" => Ok(Update::Stale),
            kind => Err(reply::unknown(QUEUE_UPDATE.name, kind)),
        }
    }

    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.bury(queue, Bytes::new()).await
    }

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing<'_>) -> Result<QueuePage, Error> {
        let names = self.registered_names(project, listing.after, listing.examined_max).await?;
        let is_end = names.len() < listing.examined_max;
        let reached = names.last().map(ToString::to_string).filter(|_| !is_end);
        // Metadata is fetched only for names that match, because it takes a command for each of them.
        let matching = names.into_iter().filter(|name| listing.takes(name.as_str()));
        let queues = try_join_all(matching.map(|name| self.named(project, name))).await?;
        Ok(QueuePage { queues: queues.into_iter().flatten().collect(), reached })
    }

    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        self.connection.command("ZCARD", &keys::queue_names(project), &[]).await?.number()
    }
}

impl RedisStore {
    /// Deletes the queue, or else makes the version of a registration that has no queue worthless, and removes the
    /// registration unless the name was registered anew.
    pub(super) async fn bury(&self, queue: &QueueId, orphan: Bytes) -> Result<(), Error> {
        let args = [orphan, Bytes::from_static(TOMBSTONE_KEPT_S.as_bytes())];
        let mut reply = self.connection.run(&QUEUE_DELETE, &QueueKeys::of(queue), &args).await?;
        let (version, letters) = (reply.bytes()?, reply.number()?);
        if letters > 0 {
            let left = self.forward_dead_letters(queue).await.unwrap_or_else(|error| {
                warn!(%queue, %error, "dead letters of a deleted queue wait");
                letters
            });
            if left > 0 {
                // The name stays in the register, where the janitor finds it, and so the letters.
                return Ok(());
            }
        }
        match str::from_utf8(&version) {
            Ok("") | Err(_) => Ok(()),
            Ok(version) => self.remove_registration(queue, reply::parse(version)?).await,
        }
    }

    async fn named(&self, project: &ProjectId, name: QueueName) -> Result<Option<(QueueName, Queue)>, Error> {
        let queue = QueueId::new(project.clone(), name.clone())
            .map_err(|error| Error::Corrupt(format!("the register of {project}: {error}")))?;
        Ok(self.get_queue(&queue).await?.map(|queue| (name, queue)))
    }
}

/// A queue from its revision and its metadata's record.
pub(super) fn read_queue(revision: u64, metadata: &[u8]) -> Result<Queue, Error> {
    Ok(Queue { metadata: record::metadata(metadata)?, revision: Revision(revision) })
}
