//! The health check: the operations that clients need, done for real on a queue of its own.

use std::future::Future;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use uuid::Uuid;

use super::claims::{ClaimRequest, TermDraft};
use super::messages::{Delay, Draft, MessageQuery, PostRequest, TenantDraft};
use super::{Broker, Error};
use crate::auth::Caller;
use crate::domain::{Body, ProjectId, QueueId};
use crate::storage::QueueListing;

/// The project of the queues that are made for a check. Always the same: stores remember projects.
const PROJECT: &str = "sukkal-health";
const MESSAGES_POSTED: usize = 100;
/// Much longer than a check takes, in microseconds: revisions are times.
const CHECK_US_MAX: u64 = 60_000_000;
/// So many queues of earlier checks are cleared away at a time.
const CLEARED_MAX: usize = 20;

/// How one operation went.
#[derive(Clone, Debug, PartialEq)]
pub struct OperationHealth {
    /// Which operation.
    pub name: &'static str,
    /// How long it took, if it worked.
    pub took: Option<Duration>,
    /// What it is called in the log, if it did not.
    pub reference: Option<Uuid>,
}

impl Broker {
    /// Checks a store that can be reached by doing what clients do, in this order. Only for operators.
    pub async fn check_health(&self, caller: &Caller) -> Result<Vec<OperationHealth>, Error> {
        if !caller.is_admin() {
            return Err(Error::Forbidden);
        }
        self.store.ping().await?;
        let this = self.clone();
        let caller = caller.clone();
        Ok(self.to_the_end(async move { this.try_operations(&caller).await }).await)
    }

    /// Deletes the queues of checks that were cut off: those much older than that of this check.
    async fn clear_away(&self, own: &QueueId) -> Result<(), Error> {
        let revision = self.store.get_queue(own).await?.map_or(0, |queue| queue.revision.0);
        let left = QueueListing { after: None, name_part: None, examined_max: CLEARED_MAX };
        for (name, old) in self.store.list_queues(own.project(), &left).await?.queues {
            if old.revision.0 + CHECK_US_MAX < revision {
                let old = QueueId::new(own.project().clone(), name).expect("the id is short");
                self.store.delete_queue(&old).await?;
            }
        }
        Ok(())
    }

    async fn try_operations(&self, caller: &Caller) -> Vec<OperationHealth> {
        let project = ProjectId::new(PROJECT).expect("the text is not empty");
        let name = Uuid::new_v4().simple().to_string().parse().expect("hexadecimal digits are legal");
        let queue = QueueId::new(project, name).expect("the id is short");
        let drafts = vec![
            Draft { ttl_s: None, delay: Delay::Unset, tenant: TenantDraft::Unset, body: nothing() };
            MESSAGES_POSTED.min(self.limits.max_messages_per_post as usize)
        ];
        let request = PostRequest { drafts, bytes: 0, once: None };
        let query = MessageQuery { echo: true, ..MessageQuery::default() };
        let wanted =
            ClaimRequest { term: TermDraft { ttl_s: Some(60), grace_s: Some(300) }, ..ClaimRequest::default() };
        let mut ids = Vec::new();
        let mut claim = None;

        let create = tried("create_queue", self.create_queue(queue.clone(), Map::new())).await;
        if let Err(error) = self.clear_away(&queue).await {
            tracing::warn!(%error, "what earlier health checks have left is still there");
        }
        let post = tried("post_messages", async {
            ids = self.post_messages(caller, queue.clone(), request).await?.value;
            Ok(())
        })
        .await;
        let claiming = tried("claim_messages", async {
            claim = self.create_claim(queue.clone(), wanted).await?.map(|taken| taken.value);
            Ok(())
        })
        .await;
        let list = tried("list_messages", self.list_messages(caller, &queue, &query)).await;
        let id = claim.as_ref().map(|claim| claim.id.to_string()).unwrap_or_default();
        let delete = tried("delete_messages", async {
            for message in claim.iter().flat_map(|claim| &claim.messages) {
                self.delete_message(queue.clone(), &message.id.to_string(), Some(&id)).await?;
            }
            Ok(())
        })
        .await;
        let release = tried("delete_claim", self.release_claim(queue.clone(), &id)).await;
        let bulk = tried("bulk_delete_messages", async { Ok(self.store.delete_messages(&queue, &ids).await?) }).await;
        let end = tried("delete_queue", self.delete_queue(queue.clone())).await;
        vec![create, post, claiming, list, delete, release, bulk, end]
    }
}

async fn tried<T>(name: &'static str, operation: impl Future<Output = Result<T, Error>>) -> OperationHealth {
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

fn nothing() -> Body {
    let empty = rmp_serde::to_vec(&json!({})).expect("JSON always has a MessagePack form");
    Body::from_msgpack(empty.into())
}
