//! The health check: the operations that clients need, done for real on a queue of its own.

use std::future::Future;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use uuid::Uuid;

use super::messages::{Draft, MessageQuery};
use super::{Broker, Error};
use crate::auth::Caller;
use crate::domain::{Body, ProjectId, QueueId};

const MESSAGES_POSTED: usize = 100;
const MESSAGES_TOUCHED: usize = 10;

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

    async fn try_operations(&self, caller: &Caller) -> Vec<OperationHealth> {
        let unique = Uuid::new_v4().simple().to_string();
        let project = ProjectId::new(&format!("health-{unique}")).expect("the text is not empty");
        let queue =
            QueueId::new(project, unique.parse().expect("hexadecimal digits are legal")).expect("the id is short");
        let drafts = vec![Draft { ttl_s: None, body: nothing() }; MESSAGES_POSTED];
        let query = MessageQuery { echo: true, ..MessageQuery::default() };
        let mut ids = Vec::new();

        let create = tried("create_queue", self.create_queue(queue.clone(), Map::new())).await;
        let post = tried("post_messages", async {
            ids = self.post_messages(caller, queue.clone(), drafts, 0).await?;
            Ok::<_, Error>(())
        })
        .await;
        let list = tried("list_messages", self.list_messages(caller, &queue, &query)).await;
        let touched: Vec<String> = ids.iter().take(MESSAGES_TOUCHED).map(ToString::to_string).collect();
        let bulk = tried("bulk_delete_messages", self.delete_messages(queue.clone(), &touched)).await;
        let delete = tried("delete_queue", self.delete_queue(queue.clone())).await;
        vec![create, post, list, bulk, delete]
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
