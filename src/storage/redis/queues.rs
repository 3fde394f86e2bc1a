//! Queues in Redis, and the register of a project's queue names.
//!
//! A queue and its project's register are in different slots, so creation and deletion take ordered
//! steps that may be repeated: register, then create; delete, then remove the registration. A
//! registration has a version. The queue is created under it, and a deletion writes it to a
//! tombstone. So no crash or race leaves a queue that is not registered. Lists skip a registered
//! name that has no queue, and the janitor removes it.

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use tracing::warn;
use uuid::Uuid;

use super::RedisStore;
use super::arguments;
use super::keys::{self, QueueKeys};
use super::reply;
use super::script::{QUEUE_CREATE, QUEUE_DELETE, QUEUE_PAUSE, QUEUE_RESUME, QUEUE_UPDATE};
use crate::domain::{Creation, Metadata, ProjectId, Queue, QueueId, QueueName, Revision, Summary};
use crate::storage::{Error, ProjectPage, QueueListing, QueuePage, QueueStore, UpdateOutcome, record};

/// How long the tombstone of a deleted queue is kept, in seconds: longer than a command can be in
/// flight.
const TOMBSTONE_KEPT_S: &str = "86400";

/// Maximum number of attempts to create a queue, each of which follows a concurrent deletion.
const ATTEMPTS_MAX: usize = 32;

#[async_trait]
impl QueueStore for RedisStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        if self.get_queue(queue).await?.is_some() {
            return Ok(Creation::Existed);
        }
        let mut lowest = 0;
        for _ in 0..ATTEMPTS_MAX {
            let version = self.register(queue, lowest).await?;
            let args = [arguments::number(version), record::from_metadata(metadata), record::policy(metadata)];
            let mut reply = self.connection.run(&QUEUE_CREATE, &QueueKeys::of(queue), &args).await?;
            match reply.text()?.as_str() {
                "created" => return Ok(Creation::Created),
                "existed" => return Ok(Creation::Existed),
                // There was a concurrent deletion, or the clock has stepped back since the last
                // one.
                "ended" => lowest = reply.number()? + 1,
                kind => return Err(reply::unknown_kind(QUEUE_CREATE.name, kind)),
            }
        }
        Err(Error::Unavailable(format!(
            "cannot create queue {queue}: it was deleted during each of {ATTEMPTS_MAX} attempts"
        )))
    }

    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error> {
        let key = QueueKeys::of(queue).queue();
        let mut reply = self.connection.command("HMGET", &key, &["v", "m"]).await?;
        match reply.text_or_nil()? {
            Some(revision) => Ok(Some(reply::read_queue(reply::parse_number(&revision)?, &reply.bytes()?)?)),
            None => Ok(None),
        }
    }

    async fn update_queue(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<UpdateOutcome, Error> {
        let token = Bytes::copy_from_slice(Uuid::new_v4().as_bytes());
        let last_known_revision = Bytes::from(last_known_revision.0.to_string());
        let args = [last_known_revision, record::from_metadata(metadata), record::policy(metadata), token];
        let (kind, _) = self.run_applying_due(&QUEUE_UPDATE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(UpdateOutcome::Done),
            "stale" => Ok(UpdateOutcome::Stale),
            kind => Err(reply::unknown_kind(QUEUE_UPDATE.name, kind)),
        }
    }

    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.delete_and_unregister(queue, Bytes::new()).await
    }

    async fn pause_queue(&self, queue: &QueueId) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let mut reply = self.connection.run(&QUEUE_PAUSE, &QueueKeys::of(queue), &[]).await?;
            match reply.text()?.as_str() {
                "done" => return Ok(()),
                "absent" => self.create_queue(queue, &Metadata::default()).await?,
                kind => return Err(reply::unknown_kind(QUEUE_PAUSE.name, kind)),
            };
        }
        Err(Error::Unavailable(format!(
            "cannot pause queue {queue}: it was deleted during each of {ATTEMPTS_MAX} attempts"
        )))
    }

    async fn resume_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.run_applying_due(&QUEUE_RESUME, queue, &[]).await.map(|_done| ())
    }

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing<'_>) -> Result<QueuePage, Error> {
        let prefix = listing.name_prefix.unwrap_or_default();
        let names = self.registered_names(project, listing.after, prefix, listing.examined_max).await?;
        let is_end = names.len() < listing.examined_max;
        let reached = names.last().map(ToString::to_string).filter(|_| !is_end);
        // Metadata is fetched only for matching names, because each takes a command.
        let matching = names.into_iter().filter(|name| listing.includes(name.as_str()));
        let queues = try_join_all(matching.map(|name| self.get_named_queue(project, name))).await?;
        Ok(QueuePage { queues: queues.into_iter().flatten().collect(), reached })
    }

    async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        self.connection.command("ZCARD", &keys::queue_register(project), &[]).await?.number()
    }

    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        self.summaries(queues).await
    }

    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error> {
        self.project_page(after, examined_max).await
    }
}

impl RedisStore {
    /// Deletes the queue, or invalidates `orphan`, the version of a registration that has no queue.
    /// Then removes the registration, unless the name has been registered again.
    pub(super) async fn delete_and_unregister(&self, queue: &QueueId, orphan: Bytes) -> Result<(), Error> {
        let args = [orphan, Bytes::from_static(TOMBSTONE_KEPT_S.as_bytes())];
        let mut reply = self.connection.run(&QUEUE_DELETE, &QueueKeys::of(queue), &args).await?;
        let (version, dead_letters) = (reply.bytes()?, reply.number()?);
        if dead_letters > 0 {
            let left = self.forward_dead_letters(queue).await.unwrap_or_else(|error| {
                warn!(%queue, %error, "cannot forward dead letters of a deleted queue; the janitor tries again");
                dead_letters
            });
            if left > 0 {
                // The name stays in the register, so that the janitor finds the queue and its dead
                // letters.
                return Ok(());
            }
        }
        match str::from_utf8(&version) {
            Ok("") | Err(_) => Ok(()),
            Ok(version) => self.remove_registration(queue, reply::parse_number(version)?).await,
        }
    }

    async fn get_named_queue(&self, project: &ProjectId, name: QueueName) -> Result<Option<(QueueName, Queue)>, Error> {
        let queue = QueueId::new(project.clone(), name.clone())
            .map_err(|error| Error::Corrupt(format!("the register of {project}: {error}")))?;
        Ok(self.get_queue(&queue).await?.map(|queue| (name, queue)))
    }
}
