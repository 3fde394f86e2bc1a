//! Operations on queues.

use serde_json::{Map, Value};

use super::{Broker, Error, check_range};
use crate::auth::Caller;
use crate::domain::{Metadata, MetadataPatch, ProjectId, Queue, QueueId, QueueName};
use crate::storage::{self, Creation, Stats, Update};

/// How often a change is tried again when others change the same queue meanwhile. Each time one of
/// them has succeeded.
const TRIES_MAX: usize = 32;
/// How many queues are looked at a time when a filter picks among them.
const FILTER_WINDOW: usize = 100;

/// Which queues of a project to list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueQuery {
    /// Only queues whose names follow this text.
    pub after: Option<String>,
    /// How many; the service's default without it.
    pub limit: Option<i64>,
    /// Only queues whose name contains this.
    pub name: Option<String>,
    /// Only queues whose metadata has all of these.
    pub metadata: Vec<(String, Value)>,
}

impl QueueQuery {
    fn matches(&self, name: &QueueName, queue: &Queue) -> bool {
        let keys = queue.metadata.keys();
        self.name.as_ref().is_none_or(|part| name.as_str().contains(part.as_str()))
            && self.metadata.iter().all(|(key, value)| keys.get(key) == Some(value))
    }

    fn picks(&self) -> bool {
        self.name.is_some() || !self.metadata.is_empty()
    }
}

impl Broker {
    /// Creates the queue unless it exists; then its metadata stays as it is.
    pub async fn create_queue(&self, queue: QueueId, metadata: Map<String, Value>) -> Result<Creation, Error> {
        let metadata = Metadata::new(metadata, &self.limits)?;
        self.sealing.check(&Metadata::default(), &metadata)?;
        let store = self.store.clone();
        self.to_the_end(async move { Ok(store.create_queue(&queue, &metadata).await?) }).await
    }

    /// The queue's metadata with all defaults; that of an empty queue when it does not exist.
    pub async fn get_queue(&self, queue: &QueueId) -> Result<Map<String, Value>, Error> {
        let metadata = self.store.get_queue(queue).await?.map(|queue| queue.metadata).unwrap_or_default();
        Ok(metadata.with_defaults(&self.limits))
    }

    /// Patches the queue's metadata, all operations or none, and returns it with all defaults.
    pub async fn update_queue(&self, queue: QueueId, patch: MetadataPatch) -> Result<Map<String, Value>, Error> {
        let this = self.clone();
        self.to_the_end(async move {
            for _ in 0..TRIES_MAX {
                let Some(current) = this.store.get_queue(&queue).await? else {
                    return Err(Error::NoQueue(queue));
                };
                let keys = patch.apply(&current.metadata)?;
                this.check_size(&keys)?;
                let metadata = Metadata::new(keys, &this.limits)?;
                this.sealing.check(&current.metadata, &metadata)?;
                if this.store.update_queue(&queue, current.revision, &metadata).await? == Update::Done {
                    return Ok(metadata.with_defaults(&this.limits));
                }
            }
            Err(storage::Error::Unavailable(format!("queue {queue} changes too often")).into())
        })
        .await
    }

    /// One patch may be as large as all the metadata; many together may not be larger.
    fn check_size(&self, keys: &Map<String, Value>) -> Result<(), Error> {
        let (bytes, most) =
            (serde_json::to_string(keys).map_or(0, |text| text.len() as u64), self.limits.max_queue_metadata);
        if bytes > most {
            return Err(Error::Limit(format!("the metadata would have {bytes} bytes, the most is {most}")));
        }
        Ok(())
    }

    /// Deletes the queue with all it holds.
    pub async fn delete_queue(&self, queue: QueueId) -> Result<(), Error> {
        let store = self.store.clone();
        self.to_the_end(async move { Ok(store.delete_queue(&queue).await?) }).await
    }

    /// A page of the project's queues by name. Empty only if none that the query lets through is left.
    pub async fn list_queues(&self, caller: &Caller, query: &QueueQuery) -> Result<Vec<(QueueName, Metadata)>, Error> {
        let limit = match query.limit {
            Some(limit) => check_range("limit", limit, 1, self.limits.max_queues_per_page)?,
            None => self.limits.queues_per_page(),
        } as usize;
        let window = if query.picks() { FILTER_WINDOW } else { limit };
        let mut after = query.after.clone();
        let mut page = Vec::new();
        loop {
            let queues = self.store.list_queues(&caller.project, after.as_deref(), window).await?;
            let last_window = queues.len() < window;
            after = queues.last().map(|(name, _)| name.to_string());
            let matching = queues.into_iter().filter(|(name, queue)| query.matches(name, queue));
            page.extend(matching.map(|(name, queue)| (name, queue.metadata)).take(limit - page.len()));
            if last_window || page.len() == limit {
                return Ok(page);
            }
        }
    }

    /// Deletes all messages of the queue, claimed ones too, and its claims.
    pub async fn purge_messages(&self, queue: QueueId) -> Result<(), Error> {
        let store = self.store.clone();
        self.to_the_end(async move { Ok(store.purge_messages(&queue).await?) }).await
    }

    /// What the queue holds, on demand shard by shard; nothing, when it does not exist.
    pub async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        Ok(self.store.get_stats(queue, detailed).await?)
    }

    /// How many queues the project has.
    pub async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        Ok(self.store.count_queues(project).await?)
    }
}
