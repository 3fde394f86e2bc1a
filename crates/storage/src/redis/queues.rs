//! Queues in Redis, and the register of a project's queue names.
//!
//! A queue and its project's register are in different slots, so creation and deletion take ordered
//! steps that may be repeated: register, then create; delete, then remove the registration. A
//! registration has a version. The queue is created under it, and a deletion writes it to a
//! tombstone. So no crash or race leaves a queue that is not registered. Lists skip a registered
//! name that has no queue, and the janitor removes it.

use async_trait::async_trait;
use bytes::Bytes;
use tracing::warn;
use uuid::Uuid;

use super::RedisStore;
use super::arguments;
use super::keys::{self, KeyName, QueueKeys};
use super::registrations::Mode;
use super::reply;
use super::script::{QUEUE_CREATE, QUEUE_DELETE, QUEUE_PAUSE, QUEUE_RESUME, QUEUE_UPDATE};
use crate::{
    Catalogue, Epoch, Error, LocatedCreation, Location, ProjectPage, QueueListing, QueuePage, QueueStore,
    UpdateOutcome, policy, record, unless_unreadable,
};
use sukkal_domain::queue_id::TOPIC_MARK;
use sukkal_domain::{Creation, Metadata, ProjectId, Queue, QueueId, QueueKind, QueueName, Revision, Summary};

/// How long the tombstone of a deleted queue is kept, in seconds: longer than a command can be in
/// flight.
pub(super) const TOMBSTONE_KEPT_S: &str = "86400";

/// Maximum number of attempts to create a queue, each of which follows a concurrent deletion.
const ATTEMPTS_MAX: usize = 32;

#[async_trait]
impl QueueStore for RedisStore {
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error> {
        if self.get_queue(queue).await?.is_some() {
            return Ok(Creation::Existed);
        }
        for _ in 0..ATTEMPTS_MAX {
            let epoch = self.register(queue).await?;
            match self.create_registered(queue, metadata, epoch.0).await? {
                LocatedCreation::Done(creation) => return Ok(creation),
                // There was a concurrent deletion, or the clock has stepped back since the last
                // one.
                LocatedCreation::Ended(ended) => {
                    let registered = Location { pool: None, epoch };
                    self.replace_location(queue, &registered, None, Epoch(ended.0 + 1)).await?;
                }
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
            Some(revision) => {
                let metadata = reply.bytes_or_nil().unwrap_or_default();
                let found = reply::read_queue(reply::parse_number(&revision)?, &metadata);
                found.map(Some).map_err(|error| error.of(format_args!("queue {queue}")))
            }
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
        let args = [last_known_revision, record::from_metadata(metadata), policy::encode(metadata), token];
        let (kind, _) = self.run_applying_due(&QUEUE_UPDATE, queue, &args).await?;
        match kind.as_str() {
            "done" => Ok(UpdateOutcome::Done),
            "stale" => Ok(UpdateOutcome::Stale),
            kind => Err(reply::unknown_kind(QUEUE_UPDATE.name, kind)),
        }
    }

    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.delete_and_unregister(queue, Bytes::new()).await.map(drop)
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

    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing) -> Result<QueuePage, Error> {
        let names = self.registered_names(project, &listing.names, listing.examined_max).await?;
        let is_end = names.len() < listing.examined_max;
        let reached = names.last().cloned().filter(|_| !is_end);
        // Metadata is fetched only for matching names, because each takes a command.
        let matching = names.into_iter().filter(|name| listing.includes(name));
        let reads: Vec<_> = matching.map(|name| self.get_named_queue(project, name)).collect();
        QueuePage::read(reads, reached, listing).await
    }

    async fn count_queues(&self, project: &ProjectId, kind: Option<QueueKind>) -> Result<u64, Error> {
        let register = keys::queue_register(project);
        let (first_topic, before_topics) = (format!("[{TOPIC_MARK}"), format!("({TOPIC_MARK}"));
        match kind {
            None => self.connection.command("ZCARD", &register, &[]).await?,
            Some(QueueKind::Queue) => self.connection.command("ZLEXCOUNT", &register, &["-", &before_topics]).await?,
            Some(QueueKind::Topic) => self.connection.command("ZLEXCOUNT", &register, &[&first_topic, "+"]).await?,
        }
        .number()
    }

    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error> {
        self.summaries(queues).await
    }

    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error> {
        self.project_page(after, examined_max).await
    }
}

impl RedisStore {
    /// Creates the queue in this store, which is a pool, under the epoch of its location.
    pub(crate) async fn create_located_queue(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        epoch: Epoch,
    ) -> Result<LocatedCreation, Error> {
        if self.get_queue(queue).await?.is_some() {
            return Ok(LocatedCreation::Done(Creation::Existed));
        }
        let (registered, _is_new) = self.register_with_project(queue, Mode::Exactly, epoch.0, None).await?;
        if registered.version > epoch.0 {
            return Ok(LocatedCreation::Ended(Epoch(registered.version)));
        }
        self.create_registered(queue, metadata, epoch.0).await
    }

    /// Deletes the queue from this store, which is a pool. If it does not exist, makes sure that it
    /// is not created under this epoch or an earlier one. Returns the last rank, fence or number
    /// that it may have assigned.
    pub(crate) async fn delete_located_queue(&self, queue: &QueueId, epoch: Epoch) -> Result<u64, Error> {
        for _ in 0..ATTEMPTS_MAX {
            self.delete_and_unregister(queue, Bytes::new()).await?;
            // The queue may have been created since, if its creation was slower than this deletion.
            if let Some(last_number) = self.delete_and_unregister(queue, arguments::number(epoch.0)).await? {
                return Ok(last_number);
            }
        }
        Err(Error::Unavailable(format!(
            "cannot delete queue {queue}: it was created during each of {ATTEMPTS_MAX} attempts"
        )))
    }

    /// Makes sure that the queue is not created in this store, which is a pool, under this epoch or
    /// an earlier one, unless it exists. Returns the last rank, fence or number that it may have
    /// assigned; `None` if it exists.
    pub(crate) async fn end_absent_queue(&self, queue: &QueueId, epoch: Epoch) -> Result<Option<u64>, Error> {
        self.delete_and_unregister(queue, arguments::number(epoch.0)).await
    }

    /// Stores that the queue has ended with this epoch and this last number in a pool.
    pub(super) async fn put_tombstone(&self, queue: &QueueId, epoch: Epoch, last_number: u64) -> Result<(), Error> {
        let kept = Bytes::from_static(TOMBSTONE_KEPT_S.as_bytes());
        let args = [arguments::number(epoch.0), kept, arguments::number(last_number)];
        self.connection.run(&QUEUE_DELETE, &QueueKeys::of(queue), &args).await.map(drop)
    }

    /// Returns a number above all that the queue has assigned before it was deleted.
    pub(super) async fn number_after_tombstone(&self, queue: &QueueId) -> Result<u64, Error> {
        let tombstone = QueueKeys::of(queue).key(KeyName::Tombstone);
        let mut reply = self.connection.command("HMGET", &tombstone, &["v", "c"]).await?;
        let mut lowest = 0;
        while !reply.is_empty() {
            let number = reply.text_or_nil()?.map_or(Ok(0), |number| reply::parse_number(&number))?;
            lowest = lowest.max(number + 1);
        }
        Ok(lowest)
    }

    async fn create_registered(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        version: u64,
    ) -> Result<LocatedCreation, Error> {
        let args = [arguments::number(version), record::from_metadata(metadata), policy::encode(metadata)];
        let mut reply = self.connection.run(&QUEUE_CREATE, &QueueKeys::of(queue), &args).await?;
        match reply.text()?.as_str() {
            "created" => Ok(LocatedCreation::Done(Creation::Created)),
            "existed" => Ok(LocatedCreation::Done(Creation::Existed)),
            "ended" => Ok(LocatedCreation::Ended(Epoch(reply.number()?))),
            kind => Err(reply::unknown_kind(QUEUE_CREATE.name, kind)),
        }
    }

    /// Deletes the queue, or invalidates `orphan`, the version of a registration that has no queue.
    /// Then removes the registration, unless the name has been registered again. Returns the last
    /// rank, fence or number that the queue may have assigned; `None` if no version has ended.
    pub(super) async fn delete_and_unregister(&self, queue: &QueueId, orphan: Bytes) -> Result<Option<u64>, Error> {
        let args = [orphan, Bytes::from_static(TOMBSTONE_KEPT_S.as_bytes()), arguments::number(0)];
        let mut reply = self.connection.run(&QUEUE_DELETE, &QueueKeys::of(queue), &args).await?;
        let (version, dead_letters, last_number) = (reply.bytes()?, reply.number()?, reply.number()?);
        if dead_letters > 0 {
            let left = self.forward_dead_letters(queue).await.unwrap_or_else(|error| {
                warn!(%queue, %error, "cannot forward dead letters of a deleted queue; the janitor tries again");
                dead_letters
            });
            if left > 0 {
                // The name stays in the register, so that the janitor finds the queue and its dead
                // letters.
                return Ok((!version.is_empty()).then_some(last_number));
            }
        }
        match str::from_utf8(&version) {
            Ok("") | Err(_) => Ok(None),
            Ok(version) => {
                self.remove_registration(queue, reply::parse_number(version)?).await?;
                Ok(Some(last_number))
            }
        }
    }

    async fn get_named_queue(&self, project: &ProjectId, name: QueueName) -> Result<Option<(QueueName, Queue)>, Error> {
        let queue = QueueId::new(project.clone(), name.clone())
            .map_err(|error| Error::Corrupt(format!("the register of {project}: {error}")))?;
        let found = unless_unreadable(self.get_queue(&queue).await)?.flatten();
        Ok(found.map(|queue| (name, queue)))
    }
}
