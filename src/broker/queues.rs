//! Operations on queues.

use std::sync::Arc;

use serde_json::Value;
use tokio::task::yield_now;

use super::access::{AdmittedStore, Resource, require_client};
use super::claims::Preference;
use super::pools::no_pool;
use super::range::page_limit;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::metadata::{DEAD_LETTER_QUEUE, InvalidMetadata, RETRY_POLICY};
use sukkal_domain::retry_policy;
use sukkal_domain::{
    Creation, JsonObject, Metadata, PoolName, Queue, QueueId, QueueKind, QueueName, Sharding, Stats, Summary, Warning,
    WithWarnings,
};
use sukkal_storage::{Moved, NameRange, QueueListing, UpdateOutcome};

/// Maximum number of attempts to change a queue that other requests change at the same time. Each
/// attempt fails only because another change has succeeded.
const ATTEMPTS_MAX: usize = 32;
/// Maximum number of names that one step of a list examines; other requests run between two steps.
const NAMES_PER_STEP: usize = 100;
/// Maximum number of names that one request examines. It is high because published clients regard a
/// page without queues as the end of the list.
const NAMES_PER_REQUEST_MAX: usize = 10_000;
/// Number of bytes of metadata after which a step of a list ends.
const BYTES_PER_STEP: usize = 256 * 1024;
/// Number of bytes of metadata after which a list ends, although more queues may match.
const BYTES_PER_REQUEST: usize = 16 * 1024 * 1024;

/// A query for queues of a project.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueQuery {
    /// Only queues of this kind.
    pub kind: QueueKind,
    /// Only queues whose names follow this text in byte order.
    pub after: Option<String>,
    /// Maximum number of queues; `None` for the service's default.
    pub limit: Option<i64>,
    /// Only queues whose names begin with this text.
    pub name_prefix: Option<String>,
    /// Only queues whose names contain this text.
    pub name: Option<String>,
    /// Only queues whose metadata has all these keys, which are distinct, with these values, which
    /// are the `MessagePack` of texts or integers.
    pub metadata: Vec<(String, Vec<u8>)>,
    /// Whether the caller uses the metadata of the queues.
    pub detailed: bool,
    /// Whether the queues have statistics.
    pub with_stats: bool,
}

/// A queue of a page.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedQueue {
    /// The name of the queue.
    pub name: QueueName,
    /// Metadata set by the owner.
    pub metadata: Metadata,
    /// Statistics, if the query asked for them.
    pub stats: Option<Summary>,
}

/// A page of a project's queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedQueues {
    /// The queues, in byte order of their names.
    pub queues: Vec<ListedQueue>,
    /// The marker of the next page; `None` for an empty page at the end of the list. An empty page
    /// has a marker if the request has examined the maximum number of names or bytes.
    pub next: Option<String>,
}

impl QueueQuery {
    fn has_metadata(&self, queue: &Queue) -> bool {
        let is_wanted = |entry: &(&str, &[u8])| self.metadata.iter().any(|(key, value)| (&**key, &**value) == *entry);
        self.metadata.is_empty() || queue.metadata.keys().entries().filter(is_wanted).count() == self.metadata.len()
    }

    fn has_filter(&self) -> bool {
        self.name.is_some() || !self.metadata.is_empty()
    }
}

impl Broker {
    /// Creates the queue. If it exists, its metadata does not change.
    pub async fn create_queue(
        &self,
        caller: &Caller,
        queue: QueueId,
        metadata: JsonObject,
    ) -> Result<WithWarnings<Creation>, Error> {
        let access = self.store.authorize(caller, Action::CreateQueue, &queue)?;
        let metadata = Metadata::new(metadata, &self.limits)?;
        self.encryption.check(&Metadata::default(), &metadata)?;
        self.check_dead_letter_queue(caller, &Metadata::default(), &metadata)?;
        let store = access.admit().await?;
        self.check_new_queue(caller, &store, &queue).await?;
        self.check_flavor(&store, queue.project(), &metadata).await.map_err(|error| match error {
            // Nothing but the flavor can be missing here, and Zaqar answers so.
            Error::NotFound(text) => Error::Limit(text),
            error => error,
        })?;
        let has_pooling = self.pooling.is_some();
        let create = async move {
            let too_few_replicas = if has_pooling {
                // The store chooses a pool that reaches the durability, or creates no queue.
                None
            } else {
                check_durability(&store, &queue, &Metadata::default(), &metadata).await?
            };
            let value = store.create_queue(&queue, &metadata).await.map_err(out_of_reach)?;
            let mut warnings = metadata.warnings(queue.name(), has_pooling);
            warnings.extend(too_few_replicas);
            if value == Creation::Existed && !metadata.keys().is_empty() {
                let current = store.get_queue(&queue).await?;
                if current.is_some_and(|current| !current.metadata.keys().has_same_entries(metadata.keys())) {
                    warnings.insert(0, Warning::MetadataUnchanged(queue.name().kind()));
                }
            }
            Ok(WithWarnings { value, warnings })
        };
        self.run_to_completion(create).await
    }

    /// Returns the queue's metadata with all defaults. A queue that does not exist has the defaults
    /// only.
    pub async fn get_queue(&self, caller: &Caller, queue: &QueueId) -> Result<WithWarnings<JsonObject>, Error> {
        let WithWarnings { value, warnings } = self.get_metadata(caller, queue).await?;
        Ok(WithWarnings { value: value.with_defaults(queue.name().kind(), &self.limits), warnings })
    }

    /// Returns the metadata that the owner of the queue has set. A queue that does not exist has
    /// none.
    pub async fn get_metadata(&self, caller: &Caller, queue: &QueueId) -> Result<WithWarnings<Metadata>, Error> {
        let store = self.store.authorize(caller, Action::GetQueue, queue)?.admit().await?;
        let found = store.get_queue(queue).await?;
        let missing = found.is_none().then(|| Warning::NoQueue(queue.name().kind()));
        let value = found.map(|queue| queue.metadata).unwrap_or_default();
        Ok(WithWarnings { value, warnings: missing.into_iter().collect() })
    }

    /// Returns a warning for a request that found nothing, if its queue does not exist. The store
    /// is not asked about queues that this process knows, so the warning may be missing for one
    /// that was deleted.
    pub async fn missing_queue(&self, caller: &Caller, action: Action, queue: &QueueId) -> Vec<Warning> {
        match self.look_up(caller, action, queue).await {
            Ok(None) => vec![Warning::NoQueue(queue.name().kind())],
            // The request itself has succeeded.
            Ok(Some(_)) | Err(_) => Vec::new(),
        }
    }

    /// Returns a warning for a claim whose preference has no effect, because the queue has no such
    /// shards.
    pub async fn useless_preference(
        &self,
        caller: &Caller,
        queue: &QueueId,
        preference: &Preference,
    ) -> Option<Warning> {
        let warning = |queue: &Queue| {
            let shards = queue.metadata.sharding().map(Sharding::shards);
            let is_useless = match preference {
                Preference::Shard(shard) => shards.is_none_or(|shards| shard.number() >= shards),
                Preference::Tenant(_) => shards.is_none(),
            };
            is_useless.then_some(Warning::PreferIgnored(shards.unwrap_or(1)))
        };
        warning(&*self.look_up(caller, Action::CreateClaim, queue).await.ok()??)?;
        // Another process may have changed the queue since this one has read it.
        warning(&*self.stored_queue(caller, Action::CreateClaim, queue).await.ok()??)
    }

    /// Returns a warning if the retry policy of the queue has precedence over that in these options
    /// of a subscription.
    pub async fn ignored_retry_policy(
        &self,
        caller: &Caller,
        queue: &QueueId,
        options: Option<&Value>,
    ) -> Option<Warning> {
        let own = options?.get(RETRY_POLICY)?;
        let found = self.stored_queue(caller, Action::CreateSubscription, queue).await.ok()??;
        let of_queue = found.metadata.keys().get(RETRY_POLICY);
        retry_policy::is_ignored(own, of_queue.as_ref()).then_some(Warning::PolicyOfQueue)
    }

    /// Returns the queue as this process knows it, or else as it is stored.
    async fn look_up(&self, caller: &Caller, action: Action, queue: &QueueId) -> Result<Option<Arc<Queue>>, Error> {
        match self.known_queues.get(queue) {
            Some(known) => Ok(Some(known)),
            None => self.stored_queue(caller, action, queue).await,
        }
    }

    /// Returns the queue as it is stored.
    async fn stored_queue(
        &self,
        caller: &Caller,
        action: Action,
        queue: &QueueId,
    ) -> Result<Option<Arc<Queue>>, Error> {
        let store = self.store.authorize(caller, action, queue)?.admit().await?;
        let found = store.get_queue(queue).await?.map(Arc::new);
        if let Some(found) = &found {
            self.known_queues.insert(queue.clone(), found.clone());
        }
        Ok(found)
    }

    /// Returns whether the queue exists. The caller must be allowed to perform the action.
    pub async fn queue_exists(&self, caller: &Caller, action: Action, queue: &QueueId) -> Result<bool, Error> {
        Ok(self.stored_queue(caller, action, queue).await?.is_some())
    }

    /// Replaces the queue's metadata with the keys that `change` returns for it, and returns it
    /// with all defaults. If the metadata changes meanwhile, `change` is called again with the new
    /// metadata.
    pub async fn update_queue(
        &self,
        caller: &Caller,
        queue: QueueId,
        change: impl Fn(&Metadata) -> Result<JsonObject, Error> + Send + Sync + 'static,
    ) -> Result<WithWarnings<JsonObject>, Error> {
        let store = self.store.authorize(caller, Action::UpdateQueue, &queue)?.admit().await?;
        let (this, caller) = (self.clone(), caller.clone());
        self.run_to_completion(async move {
            for _ in 0..ATTEMPTS_MAX {
                let Some(current) = store.get_queue(&queue).await? else {
                    return Err(Error::NoQueue(queue));
                };
                let keys = change(&current.metadata)?;
                this.check_size(&keys)?;
                let metadata = Metadata::new(keys, &this.limits)?;
                this.encryption.check(&current.metadata, &metadata)?;
                this.check_dead_letter_queue(&caller, &current.metadata, &metadata)?;
                let has_other_flavor = metadata.flavor() != current.metadata.flavor();
                // The flavor of a queue may have been deleted since.
                if has_other_flavor {
                    this.check_flavor(&store, queue.project(), &metadata).await?;
                }
                let kept = (has_other_flavor && this.pooling.is_some()).then_some(Warning::FlavorKept);
                let too_few_replicas = check_durability(&store, &queue, &current.metadata, &metadata).await?;
                if store.update_queue(&queue, current.revision, &metadata).await? == UpdateOutcome::Done {
                    let value = metadata.with_defaults(queue.name().kind(), &this.limits);
                    let warnings_of = |metadata: &Metadata| metadata.warnings(queue.name(), this.pooling.is_some());
                    let (mut warnings, old) = (warnings_of(&metadata), warnings_of(&current.metadata));
                    // A response shows only the first ones.
                    warnings.sort_by_key(|warning| old.contains(warning));
                    warnings.splice(0..0, too_few_replicas.into_iter().chain(kept));
                    return Ok(WithWarnings { value, warnings });
                }
            }
            Err(sukkal_storage::Error::Unavailable(format!("queue {queue} changes too often")).into())
        })
        .await
    }

    /// Succeeds if new metadata may name its dead-letter queue and the caller may post to that, or
    /// if the current metadata has the same one.
    fn check_dead_letter_queue(&self, caller: &Caller, current: &Metadata, new: &Metadata) -> Result<(), Error> {
        match new.dead_letter_queue() {
            Some(queue) if current.dead_letter_queue() != Some(queue) => {
                let name = queue.parse().and_then(|name: QueueName| name.check_new());
                name.map_err(InvalidMetadata::DeadLetterQueue)?;
                self.store.authorize_target(caller, DEAD_LETTER_QUEUE)
            }
            _ => Ok(()),
        }
    }

    /// Checks the size of the patched metadata. The limit on the size of a request bounds one patch
    /// only.
    fn check_size(&self, keys: &JsonObject) -> Result<(), Error> {
        let (bytes, max) =
            (serde_json::to_string(keys).map_or(0, |text| text.len() as u64), self.limits.max_queue_metadata);
        if bytes > max {
            return Err(Error::Limit(format!("the metadata would have {bytes} bytes; at most {max} are allowed")));
        }
        Ok(())
    }

    /// Deletes the queue with its messages and claims.
    pub async fn delete_queue(&self, caller: &Caller, queue: QueueId) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::DeleteQueue, &queue)?.admit().await?;
        self.run_to_completion(async move { Ok(store.delete_queue(&queue).await?) }).await
    }

    /// Returns a page of the project's queues, or of its topics, by name. It examines a bounded
    /// number of names and bytes of metadata in small steps, so a page may be shorter than its
    /// limit, or empty, although more queues match. Lists of one project that have filters or
    /// statistics run one after another.
    ///
    /// If a pool is down, a list that needs its metadata or statistics fails. A list of names does
    /// not.
    pub async fn list_queues(&self, caller: &Caller, query: &QueueQuery) -> Result<ListedQueues, Error> {
        let project = &require_client(caller)?.project;
        let access =
            self.store.authorize(caller, Action::ListQueues, Resource::Project(project.clone(), query.kind))?;
        let limit = page_limit(query.limit, self.limits.max_queues_per_page)?;
        let own_lock = || self.filter_locks.get_or_insert_with(project.clone(), Arc::default);
        let lock = (query.has_filter() || query.with_stats).then(own_lock);
        let _locked = match &lock {
            Some(lock) => Some(lock.lock().await),
            None => None,
        };
        let mut page: Vec<ListedQueue> = Vec::new();
        let (mut after, mut left, mut bytes_left) = (query.after.clone(), NAMES_PER_REQUEST_MAX, BYTES_PER_REQUEST);
        while left > 0 && bytes_left > 0 {
            let step = if query.has_filter() { NAMES_PER_STEP } else { NAMES_PER_STEP.min(limit - page.len()) };
            let listing = QueueListing {
                names: NameRange::of_kind(query.kind, after.as_deref(), query.name_prefix.as_deref()),
                name_part: query.name.clone(),
                examined_max: step.min(left),
                bytes: BYTES_PER_STEP,
                needs_metadata: query.detailed || query.with_stats || !query.metadata.is_empty(),
            };
            let store = access.admit().await?;
            let examined = store.list_queues(project, &listing).await?;
            left -= listing.examined_max;
            bytes_left = bytes_left.saturating_sub(examined.bytes());
            let matching = examined.queues.into_iter().filter(|(_, queue)| query.has_metadata(queue));
            let listed = matching.map(|(name, queue)| ListedQueue { name, metadata: queue.metadata, stats: None });
            page.extend(listed.take(limit - page.len()));
            after = examined.reached.map(|name| name.to_string());
            if page.len() == limit || after.is_none() {
                after = page.last().map(|queue| queue.name.to_string());
                break;
            }
            yield_now().await;
        }
        let mut page = ListedQueues { queues: page, next: after };
        if query.with_stats {
            self.add_stats(caller, project, query.kind, &mut page).await?;
        }
        Ok(page)
    }

    /// Pauses the queue: claims and pops get no messages until it is resumed. Creates the queue if
    /// it does not exist.
    pub async fn pause_queue(&self, caller: &Caller, queue: QueueId) -> Result<WithWarnings<()>, Error> {
        let access = self.store.authorize(caller, Action::PauseQueue, &queue)?;
        let is_new = self.stored_queue(caller, Action::PauseQueue, &queue).await?.is_none();
        let created = is_new.then(|| Warning::CreatedPaused(queue.name().kind()));
        let store = access.admit().await?;
        self.check_new_queue(caller, &store, &queue).await?;
        self.run_to_completion(async move {
            store.pause_queue(&queue).await?;
            Ok(WithWarnings { value: (), warnings: created.into_iter().collect() })
        })
        .await
    }

    /// Resumes the queue. Requests that wait for its messages get them.
    pub async fn resume_queue(&self, caller: &Caller, queue: QueueId) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::ResumeQueue, &queue)?.admit().await?;
        self.run_to_completion(async move { Ok(store.resume_queue(&queue).await?) }).await
    }

    /// Moves the queue to this pool, with everything that it has. Its other requests wait
    /// meanwhile. Has no effect if the queue is in the pool already.
    pub async fn move_queue(&self, caller: &Caller, queue: QueueId, pool: PoolName) -> Result<(), Error> {
        // A move works on several stores, and takes no place of other requests in any of them.
        let store = self.store.authorize(caller, Action::MoveQueue, Resource::Store)?.admit().await?;
        self.run_to_completion(async move {
            let what = format!("{} {}/{}", queue.name().kind().noun(), queue.project(), queue.name());
            match store.move_queue(&queue, &pool).await? {
                Moved::Done => Ok(()),
                Moved::NoQueue => Err(Error::NoQueue(queue)),
                Moved::NoPool => Err(Error::Pool(no_pool(pool.as_str()).to_string())),
                Moved::CannotLeave => Err(Error::Conflict(format!(
                    "{what} is in the management store, which single queues cannot leave if it is embedded; \
                     `sukkal migrate` copies this store to Redis as a whole"
                ))),
                Moved::IsManagementStore => Err(Error::Conflict(format!(
                    "pool {pool} has the database of the management store, so no queue can move there"
                ))),
                Moved::OutOfReach(level) => Err(Error::Conflict(format!(
                    "pool {pool} cannot confirm \"{level}\" at present, which _durability requires of posts to {what}; \
                     change the servers of the pool, or the metadata"
                ))),
                Moved::SameDatabase => Err(Error::Conflict(format!(
                    "pool {pool} and the pool of {what} have the same database, so it cannot move"
                ))),
            }
        })
        .await
    }

    /// Deletes all messages of the queue, including claimed ones, and its claims.
    pub async fn purge_queue(&self, caller: &Caller, queue: QueueId) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::PurgeQueue, &queue)?.admit().await?;
        self.run_to_completion(async move { Ok(store.purge_queue(&queue).await?) }).await
    }

    /// Returns statistics of the queue, with those of each shard if they are `detailed`. A queue
    /// that does not exist is empty.
    pub async fn get_stats(&self, caller: &Caller, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        let store = self.store.authorize(caller, Action::GetStats, queue)?.admit().await?;
        Ok(store.get_stats(queue, detailed).await?)
    }

    /// Returns the number of queues that the caller's project has, or of topics.
    pub async fn count_queues(&self, caller: &Caller, kind: QueueKind) -> Result<u64, Error> {
        let project = &require_client(caller)?.project;
        let resource = Resource::Project(project.clone(), kind);
        let store = self.store.authorize(caller, Action::CountQueues, resource)?.admit().await?;
        Ok(store.count_queues(project, Some(kind)).await?)
    }
}

/// Succeeds if posts to the queue can reach the durability of its new metadata. If only replicas
/// are missing at present, returns a warning.
async fn check_durability(
    store: &AdmittedStore,
    queue: &QueueId,
    current: &Metadata,
    new: &Metadata,
) -> Result<Option<Warning>, Error> {
    let Some(level) = new.durability().filter(|level| current.durability() != Some(*level)) else {
        return Ok(None);
    };
    match store.check_durability(queue, level).await {
        Err(sukkal_storage::Error::TooFewReplicas { .. }) => Ok(Some(Warning::TooFewReplicas)),
        checked => Ok(checked.map(|()| None).map_err(out_of_reach)?),
    }
}

/// Names the key of metadata whose durability the store cannot reach, if that is the failure.
fn out_of_reach(error: sukkal_storage::Error) -> sukkal_storage::Error {
    match error {
        sukkal_storage::Error::Unsupported(reason) => {
            sukkal_storage::Error::Unsupported(format!("No post can reach _durability. {reason}"))
        }
        error => error,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::auth::Client;
    use crate::broker::test_options::{limits, push_config};
    use crate::observability::metrics::Metrics;
    use sukkal_domain::ProjectId;
    use sukkal_storage::QueueStore as _;
    use sukkal_storage::embedded::EmbeddedStore;

    fn caller(project: &str) -> Caller {
        Caller::Client(Client::of_test(project, &[]))
    }

    /// Metadata of an earlier release can have more values than are accepted now.
    #[tokio::test]
    async fn a_list_examines_a_bounded_size_of_metadata_and_continues_after_it() {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        let broker = Broker::new(store.clone(), limits(), push_config(), None, Arc::new(Metrics::default()));
        let keys = serde_json::json!({ "a": vec![vec![0]; 16_000], "b": "x".repeat(500_000) });
        let metadata = Metadata::from_store(keys.as_object().unwrap().into());
        let count = 2 * BYTES_PER_REQUEST / metadata.keys().as_msgpack().len() - 2;
        let id = |number: usize| {
            QueueId::new(ProjectId::new("p").unwrap(), format!("q{number:02}").parse().unwrap()).unwrap()
        };
        for number in 0..count {
            store.create_queue(&id(number), &metadata).await.unwrap();
        }
        let filter = ("c".to_owned(), rmp_serde::to_vec(&1).unwrap());
        let mut query = QueueQuery { metadata: vec![filter], detailed: true, ..QueueQuery::default() };

        let mut pages = Vec::new();
        while pages.len() < 9 {
            let page = broker.list_queues(&caller("p"), &query).await.unwrap();
            assert_eq!(page.queues, []);
            query.after.clone_from(&page.next);
            pages.push(page.next);
            if query.after.is_none() {
                break;
            }
        }
        assert!(matches!(&pages[..], [Some(_), None]), "{pages:?}");

        query.metadata = vec![("b".to_owned(), rmp_serde::to_vec(&"x".repeat(500_000)).unwrap())];
        let page = broker.list_queues(&caller("p"), &query).await.unwrap();
        assert_eq!(page.queues.len(), 10);
        assert_eq!(broker.get_metadata(&caller("p"), &id(0)).await.unwrap().value, metadata);
    }

    #[tokio::test]
    async fn a_project_runs_one_list_with_a_filter_at_a_time() {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        let broker = Broker::new(store, limits(), push_config(), None, Arc::new(Metrics::default()));
        let (busy, other) = (caller("busy"), caller("other"));
        let filtering = QueueQuery { name: Some("q".to_owned()), ..QueueQuery::default() };
        let project = busy.as_client().unwrap().project.clone();
        let running = broker.filter_locks.get_or_insert_with(project, Arc::default);
        let running = running.lock().await;

        let waiting = broker.list_queues(&busy, &filtering);
        tokio::pin!(waiting);
        assert!(timeout(Duration::from_millis(20), &mut waiting).await.is_err());
        broker.list_queues(&busy, &QueueQuery::default()).await.unwrap();
        broker.list_queues(&other, &filtering).await.unwrap();

        drop(running);
        waiting.await.unwrap();
        broker.list_queues(&other, &filtering).await.unwrap();
        assert!(broker.filter_locks.len() <= 2, "locks of projects that no longer list are dropped");
    }
}
