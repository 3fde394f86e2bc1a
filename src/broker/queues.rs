//! Operations on queues.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use serde_json::{Map, Value};
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::yield_now;

use super::{Broker, Error, check_range};
use crate::auth::Caller;
use crate::domain::{Metadata, MetadataPatch, ProjectId, Queue, QueueId, QueueName, Warned};
use crate::storage::{self, Creation, QueueListing, Stats, Update};

/// How often a change is tried again when others change the same queue meanwhile. Each time one of
/// them has succeeded.
const TRIES_MAX: usize = 32;
/// Maximum number of names that one step of a list examines; other requests run between two steps.
const NAMES_PER_STEP: usize = 100;
/// Maximum number of names that one request examines. It is generous, because published clients take a page without
/// queues for the end of the list.
const NAMES_PER_REQUEST_MAX: usize = 10_000;

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

/// A page of a project's queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedQueues {
    /// The queues, in byte order of their names.
    pub queues: Vec<(QueueName, Metadata)>,
    /// The marker of the next page; `None` for an empty page at the end of the list. An empty page has a marker if the
    /// request examined as many names as one request may.
    pub next: Option<String>,
}

impl QueueQuery {
    fn has_metadata(&self, queue: &Queue) -> bool {
        let keys = queue.metadata.keys();
        self.metadata.iter().all(|(key, value)| keys.get(key) == Some(value))
    }

    fn has_filter(&self) -> bool {
        self.name.is_some() || !self.metadata.is_empty()
    }
}

/// Runs one list with a filter at a time for each project of this process.
///
/// Requests of a project wait here in the order in which they arrived. None is refused: the requests in front of it are
/// bounded, and one whose client disconnects stops waiting.
#[derive(Debug, Default)]
pub(super) struct FilterTurns(Mutex<HashMap<ProjectId, Weak<AsyncMutex<()>>>>);

impl FilterTurns {
    /// Returns the lock that a project's list with a filter holds while it runs.
    fn of(&self, project: &ProjectId) -> Arc<AsyncMutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(project).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(AsyncMutex::new(()));
        turns.insert(project.clone(), Arc::downgrade(&turn));
        turn
    }
}

impl Broker {
    /// Creates the queue unless it exists; then its metadata stays as it is.
    pub async fn create_queue(&self, queue: QueueId, metadata: Map<String, Value>) -> Result<Warned<Creation>, Error> {
        let metadata = Metadata::new(metadata, &self.limits)?;
        self.sealing.check(&Metadata::default(), &metadata)?;
        let store = self.admitted(&queue).await?;
        let create = async move {
            let value = store.create_queue(&queue, &metadata).await?;
            Ok(Warned { value, warnings: metadata.warnings() })
        };
        self.to_the_end(create).await
    }

    /// The queue's metadata with all defaults; that of an empty queue when it does not exist.
    pub async fn get_queue(&self, queue: &QueueId) -> Result<Map<String, Value>, Error> {
        let metadata =
            self.admitted(queue).await?.get_queue(queue).await?.map(|queue| queue.metadata).unwrap_or_default();
        Ok(metadata.with_defaults(&self.limits))
    }

    /// Patches the queue's metadata, all operations or none, and returns it with all defaults.
    pub async fn update_queue(
        &self,
        queue: QueueId,
        patch: MetadataPatch,
    ) -> Result<Warned<Map<String, Value>>, Error> {
        let (this, store) = (self.clone(), self.admitted(&queue).await?);
        self.to_the_end(async move {
            for _ in 0..TRIES_MAX {
                let Some(current) = store.get_queue(&queue).await? else {
                    return Err(Error::NoQueue(queue));
                };
                let keys = patch.apply(&current.metadata)?;
                this.check_size(&keys)?;
                let metadata = Metadata::new(keys, &this.limits)?;
                this.sealing.check(&current.metadata, &metadata)?;
                if store.update_queue(&queue, current.revision, &metadata).await? == Update::Done {
                    let value = metadata.with_defaults(&this.limits);
                    return Ok(Warned { value, warnings: metadata.warnings() });
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
            return Err(Error::Limit(format!("the metadata would have {bytes} bytes; at most {most} are allowed")));
        }
        Ok(())
    }

    /// Deletes the queue with all it holds.
    pub async fn delete_queue(&self, queue: QueueId) -> Result<(), Error> {
        let store = self.admitted(&queue).await?;
        self.to_the_end(async move { Ok(store.delete_queue(&queue).await?) }).await
    }

    /// Returns a page of the project's queues by name. It examines a bounded number of names in small steps, so a page
    /// may be shorter than its limit, or empty, although more queues match.
    pub async fn list_queues(&self, caller: &Caller, query: &QueueQuery) -> Result<ListedQueues, Error> {
        let limit = match query.limit {
            Some(limit) => check_range("limit", limit, 1, self.limits.max_queues_per_page)?,
            None => self.limits.queues_per_page(),
        } as usize;
        let turn = query.has_filter().then(|| self.filter_turns.of(&caller.project));
        let _turn = match &turn {
            Some(turn) => Some(turn.lock().await),
            None => None,
        };
        let mut page: Vec<(QueueName, Metadata)> = Vec::new();
        let (mut after, mut left) = (query.after.clone(), NAMES_PER_REQUEST_MAX);
        while left > 0 {
            let step = if query.has_filter() { NAMES_PER_STEP } else { NAMES_PER_STEP.min(limit - page.len()) };
            let listing = QueueListing {
                after: after.as_deref(),
                name_part: query.name.as_deref(),
                examined_max: step.min(left),
            };
            let store = self.admitted_to_list(&caller.project).await?;
            let examined = store.list_queues(&caller.project, &listing).await?;
            left -= listing.examined_max;
            let matching = examined.queues.into_iter().filter(|(_, queue)| query.has_metadata(queue));
            page.extend(matching.map(|(name, queue)| (name, queue.metadata)).take(limit - page.len()));
            after = examined.reached;
            if page.len() == limit || after.is_none() {
                after = page.last().map(|(name, _)| name.to_string());
                break;
            }
            yield_now().await;
        }
        Ok(ListedQueues { queues: page, next: after })
    }

    /// Deletes all messages of the queue, claimed ones too, and its claims.
    pub async fn purge_messages(&self, queue: QueueId) -> Result<(), Error> {
        let store = self.admitted(&queue).await?;
        self.to_the_end(async move { Ok(store.purge_messages(&queue).await?) }).await
    }

    /// What the queue holds, on demand shard by shard; nothing, when it does not exist.
    pub async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        Ok(self.admitted(queue).await?.get_stats(queue, detailed).await?)
    }

    /// How many queues the project has.
    pub async fn count_queues(&self, project: &ProjectId) -> Result<u64, Error> {
        Ok(self.admitted_to_list(project).await?.count_queues(project).await?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::domain::{ClientIdRule, Limits};
    use crate::metrics::Metrics;
    use crate::storage::embedded::EmbeddedStore;

    fn caller(project: &str) -> Caller {
        let client = ClientIdRule::Uuid.parse("3381af92-2b9e-11e3-b191-71861300734c").unwrap();
        Caller { project: ProjectId::new(project).unwrap(), client, roles: Vec::new() }
    }

    #[tokio::test]
    async fn a_project_runs_one_list_with_a_filter_at_a_time() {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        let limits = Limits {
            default_message_ttl: 60,
            default_message_delay: 0,
            max_message_ttl: 60,
            max_message_delay: 0,
            default_claim_ttl: 60,
            default_claim_grace: 60,
            max_claim_ttl: 60,
            max_claim_grace: 60,
            max_messages_post_size: 1,
            max_messages_per_post: 1,
            idempotency_key_ttl: 1,
            max_queue_metadata: 1,
            message_delete_with_claim_id: false,
            max_queues_per_page: 10,
            max_wait: 0,
            max_queueing: 1,
            max_waits_per_project: 1,
            max_streams_per_project: 1,
            max_messages_per_claim_or_pop: 1,
            max_messages_per_page: 1,
        };
        let broker = Broker::new(store, limits, None, Arc::new(Metrics::default()));
        let (busy, other) = (caller("busy"), caller("other"));
        let filtering = QueueQuery { name: Some("q".to_owned()), ..QueueQuery::default() };
        let running = broker.filter_turns.of(&busy.project);
        let running = running.lock().await;

        let waiting = broker.list_queues(&busy, &filtering);
        tokio::pin!(waiting);
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err());
        broker.list_queues(&busy, &QueueQuery::default()).await.unwrap();
        broker.list_queues(&other, &filtering).await.unwrap();

        drop(running);
        waiting.await.unwrap();
        broker.list_queues(&other, &filtering).await.unwrap();
        assert!(broker.filter_turns.0.lock().unwrap().len() <= 2, "locks of projects that list no more are dropped");
    }
}
