//! The health check: performs the operations that clients need on a queue of its own.

use std::future::Future;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use uuid::Uuid;

use super::access::{Resource, require_client};
use super::claims::{ClaimRequest, TermDraft};
use super::messages::{Delay, Draft, MessageQuery, PostRequest, TenantDraft};
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::{Body, JsonObject, PoolName, ProjectId, QueueId};
use sukkal_storage::{PoolState, QueueListing};

/// The project of the queues that are created for a check. It is always the same, because stores
/// keep a record of each project.
const PROJECT: &str = "sukkal-health";
const MESSAGES_POSTED: usize = 100;
/// Minimum age of a queue that an earlier check has left, in microseconds. Revisions are times, and
/// a check takes much less time than this.
const LEFT_QUEUE_AGE_US_MIN: u64 = 60_000_000;
/// Maximum number of queues of earlier checks that one check examines.
const LEFT_QUEUES_MAX: usize = 20;

/// The outcome of one operation.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationHealth {
    /// The name of the operation.
    pub name: &'static str,
    /// The duration of the operation, if it succeeded.
    pub took: Option<Duration>,
    /// The id of the failure in the log, if it failed.
    pub reference: Option<Uuid>,
}

/// The outcome of a check.
#[derive(Clone, Debug, PartialEq)]
pub enum Health {
    /// The operations on the only store.
    Store(Vec<OperationHealth>),
    /// The pools, by name.
    Pools(Vec<PoolHealth>),
}

/// The outcome of a check of one pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolHealth {
    /// The name of the pool.
    pub name: PoolName,
    /// The operations on it; `None` if it is down.
    pub operations: Option<Vec<OperationHealth>>,
}

impl Broker {
    /// Performs the operations that clients need, in this order, if the store can be reached; with
    /// pools, in each pool that is up. The caller needs no other permission than for this check.
    pub async fn check_health(&self, caller: &Caller) -> Result<Health, Error> {
        let store = self.store.authorize(caller, Action::CheckHealth, Resource::Store)?.admit().await?;
        store.ping().await?;
        let this = self.clone();
        let caller = Caller::SystemAs(require_client(caller)?.clone());
        let pools = store.pools();
        let check = async move {
            match pools {
                None => Health::Store(this.try_operations(&caller, None).await),
                Some(pools) => {
                    Health::Pools(join_all(pools.into_iter().map(|pool| this.check_pool(&caller, pool))).await)
                }
            }
        };
        Ok(self.run_to_completion(check).await)
    }

    async fn check_pool(&self, caller: &Caller, PoolState { name, failure }: PoolState) -> PoolHealth {
        let operations = match failure {
            Some(_) => None,
            None => Some(self.try_operations(caller, Some(&name)).await),
        };
        PoolHealth { name, operations }
    }

    /// Deletes the queues of checks that were interrupted: those much older than the queue of this
    /// check.
    async fn delete_old_queues(&self, own: &QueueId) -> Result<(), Error> {
        let access = self.store.authorize(&Caller::System, Action::DeleteOldHealthQueues, own.project())?;
        let store = access.admit().await?;
        let revision = store.get_queue(own).await?.map_or(0, |queue| queue.revision.0);
        let left = QueueListing { examined_max: LEFT_QUEUES_MAX, ..QueueListing::default() };
        for (name, old) in store.list_queues(own.project(), &left).await?.queues {
            if old.revision.0 + LEFT_QUEUE_AGE_US_MIN < revision {
                let old = QueueId::new(own.project().clone(), name).expect("the id is short");
                store.delete_queue(&old).await?;
            }
        }
        Ok(())
    }

    /// Performs the operations on a new queue, which is in this pool if there is one.
    async fn try_operations(&self, caller: &Caller, pool: Option<&PoolName>) -> Vec<OperationHealth> {
        let project = ProjectId::new(PROJECT).expect("the text is not empty");
        let name = Uuid::new_v4().simple().to_string().parse().expect("hexadecimal digits are legal");
        let queue = QueueId::new(project, name).expect("the id is short");
        let drafts = vec![
            Draft { ttl_s: None, delay: Delay::Unset, tenant: TenantDraft::Unset, body: empty_body() };
            MESSAGES_POSTED.min(self.limits.max_messages_per_post as usize)
        ];
        let request = PostRequest { drafts, bytes: 0, idempotency: None, trace: None, origin: None, durability: None };
        let query = MessageQuery { echo: true, ..MessageQuery::default() };
        let wanted =
            ClaimRequest { term: TermDraft { ttl_s: Some(60), grace_s: Some(300) }, ..ClaimRequest::default() };
        let mut ids = Vec::new();
        let mut claim = None;

        let create = run("create_queue", async {
            if let Some(pool) = pool {
                let access = self.store.authorize(&Caller::System, Action::CreateQueue, &queue)?;
                access.admit().await?.locate_queue(&queue, pool).await?;
            }
            self.create_queue(caller, queue.clone(), JsonObject::default()).await
        })
        .await;
        if let Err(error) = self.delete_old_queues(&queue).await {
            tracing::warn!(%error, "cannot delete the queues that earlier health checks have left");
        }
        let post = run("post_messages", async {
            ids = self.post_messages(caller, queue.clone(), request).await?.value.ids;
            Ok(())
        })
        .await;
        let claiming = run("claim_messages", async {
            claim = self.create_claim(caller, queue.clone(), wanted).await?.messages().map(|claim| claim.value);
            Ok(())
        })
        .await;
        let list = run("list_messages", self.list_messages(caller, &queue, &query)).await;
        let id = claim.as_ref().map(|claim| claim.id.to_string()).unwrap_or_default();
        let delete = run("delete_messages", async {
            for message in claim.iter().flat_map(|claim| &claim.messages) {
                self.delete_message(caller, queue.clone(), &message.id.to_string(), Some(&id)).await?;
            }
            Ok(())
        })
        .await;
        let release = run("delete_claim", self.release_claim(caller, queue.clone(), &id)).await;
        let bulk = run("bulk_delete_messages", async {
            let store = self.store.authorize(&Caller::System, Action::DeleteMessages, &queue)?.admit().await?;
            Ok(store.delete_messages(&queue, &ids).await?)
        })
        .await;
        let end = run("delete_queue", self.delete_queue(caller, queue.clone())).await;
        vec![create, post, claiming, list, delete, release, bulk, end]
    }
}

async fn run<T>(name: &'static str, operation: impl Future<Output = Result<T, Error>>) -> OperationHealth {
    let start = Instant::now();
    match operation.await {
        Ok(_) => OperationHealth { name, took: Some(start.elapsed()), reference: None },
        Err(error) => {
            let reference = Uuid::new_v4();
            tracing::error!(operation = name, %reference, %error, "health check failed");
            OperationHealth { name, took: None, reference: Some(reference) }
        }
    }
}

fn empty_body() -> Body {
    let empty = rmp_serde::to_vec(&json!({})).expect("JSON always has a MessagePack form");
    Body::from_msgpack(empty.into())
}
