//! Queues in Redis, and the register of a project's queue names.
//!
//! A queue and its project's register are in different slots, so birth and death take ordered steps
//! that may be repeated: registered first, then created; deleted first, then taken out of the
//! register. A registration carries a stamp, the queue is created under it, and a deletion lays that
//! stamp to rest. So no crash or race leaves a queue that is not registered; what is registered
//! without being there is passed over by lists, and the janitor takes it out.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use tracing::warn;
use uuid::Uuid;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::reply;
use super::script::{QUEUE_CREATE, QUEUE_DELETE, QUEUE_REGISTER, QUEUE_UNREGISTER, QUEUE_UPDATE};
use crate::domain::{Metadata, ProjectId, Queue, QueueId, QueueName, Revision};
use crate::storage::{Creation, Error, QueueStore, Update, record};

/// How long a deleted queue's counter and grave stay: longer than a command can be under way.
const GRAVE_KEPT_S: &str = "86400";

/// How often a creation begins anew because a delete came in between.
const TRIES_MAX: usize = 32;

#[async_trait]
impl QueueStore for RedisStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        if self.get_queue(queue).await?.is_some() {
            return Ok(Creation::Existed);
        }
        let project = queue.project().as_str();
        self.connection.command("ZADD", keys::PROJECTS, &["0", project]).await?;
        for _ in 0..TRIES_MAX {
            let stamp = self.register(queue).await?;
            let args = vec![stamp, record::from_metadata(metadata), record::policy(metadata)];
            let keys = QueueKeys::of(queue).all_and_grave();
            match self.connection.run(&QUEUE_CREATE, keys, args).await?.text()?.as_str() {
                "created" => return Ok(Creation::Created),
                "existed" => return Ok(Creation::Existed),
                // A delete came in between; its stamp is higher than ours, the next one is higher still.
                "buried" => {}
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

    async fn list_queues(
        &self,
        project: &ProjectId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<(QueueName, Queue)>, Error> {
        let mut after = after.map(str::to_owned);
        let mut listed = Vec::new();
        loop {
            let wanted = limit - listed.len();
            let names = self.registered_names(project, after.as_deref(), wanted).await?;
            let last_page = names.len() < wanted;
            after = names.last().map(ToString::to_string);
            let queues = try_join_all(names.into_iter().map(|name| self.named(project, name))).await?;
            listed.extend(queues.into_iter().flatten());
            if last_page || listed.len() == limit {
                return Ok(listed);
            }
        }
    }

    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        self.connection.command("ZCARD", &keys::queue_names(project), &[]).await?.number()
    }
}

impl RedisStore {
    /// Up to `limit` names of the register behind `after`, whether their queues are there or not.
    pub(super) async fn registered_names(
        &self,
        project: &ProjectId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<QueueName>, Error> {
        let from = after.map_or("-".to_owned(), |name| format!("({name}"));
        let mut reply = self
            .connection
            .command("ZRANGEBYLEX", &keys::queue_names(project), &[&from, "+", "LIMIT", "0", &limit.to_string()])
            .await?;
        let mut names = Vec::new();
        while !reply.is_empty() {
            let name = reply.text()?;
            names.push(name.parse().map_err(|_| Error::Corrupt(format!("{name:?} is registered as a queue")))?);
        }
        Ok(names)
    }

    /// Lays to rest the queue, or else the stamp of a registration that has no queue, and takes the
    /// name out of the register unless it was registered anew.
    pub(super) async fn bury(&self, queue: &QueueId, orphan: Bytes) -> Result<(), Error> {
        let args = vec![orphan, Bytes::from_static(GRAVE_KEPT_S.as_bytes())];
        let keys = QueueKeys::of(queue).all_and_grave_and_letters();
        let mut reply = self.connection.run(&QUEUE_DELETE, keys, args).await?;
        let (stamp, letters) = (reply.bytes()?, reply.number()?);
        if letters > 0 {
            let left = self.deliver_letters(queue).await.unwrap_or_else(|error| {
                warn!(%queue, %error, "dead letters of a deleted queue wait");
                letters
            });
            if left > 0 {
                // The name stays in the register, where the janitor finds it, and so the letters.
                return Ok(());
            }
        }
        if !stamp.is_empty() {
            let name = Bytes::copy_from_slice(queue.name().as_str().as_bytes());
            let keys = register_keys(queue.project());
            self.connection.run(&QUEUE_UNREGISTER, keys, vec![name, stamp]).await?;
        }
        Ok(())
    }

    async fn register(&self, queue: &QueueId) -> Result<Bytes, Error> {
        let name = Bytes::copy_from_slice(queue.name().as_str().as_bytes());
        self.connection.run(&QUEUE_REGISTER, register_keys(queue.project()), vec![name]).await?.bytes()
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

fn register_keys(project: &ProjectId) -> Vec<String> {
    vec![keys::queue_names(project), keys::queue_stamps(project)]
}
