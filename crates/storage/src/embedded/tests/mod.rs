//! Unit tests that need a whole store, and the functions that they share.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::embedded::store::EmbeddedStore;
use crate::{ClaimStore, MessageStore, Post, QueueStore};
use sukkal_domain::{
    Body, ClaimId, ClientId, ClientIdRule, JsonObject, Metadata, NewClaim, NewMessage, ProjectId, QueueId, QueueLimits,
    Sharding, Tenant, Term,
};

mod check;
mod due_changes;
mod list;
mod outcomes;
mod read_ahead;
mod shards;
mod writer;

pub(crate) fn poster() -> ClientId {
    ClientIdRule::Text(1..=9).parse("a client").unwrap()
}

/// Creates a queue with this metadata.
pub(crate) async fn queue(store: &EmbeddedStore, name: &str, keys: Value) -> QueueId {
    let queue = QueueId::new(ProjectId::new("p").unwrap(), name.parse().unwrap()).unwrap();
    let metadata = Metadata::from_store(keys.as_object().map(JsonObject::from).unwrap_or_default());
    store.create_queue(&queue, &metadata).await.unwrap();
    queue
}

/// Posts messages with bodies of about this size.
pub(crate) async fn post(store: &EmbeddedStore, queue: &QueueId, count: usize, bytes: usize) {
    let revision = store.get_queue(queue).await.unwrap().unwrap().revision;
    let body = Body::from_msgpack(rmp_serde::to_vec(&"x".repeat(bytes)).unwrap().into());
    let messages = vec![NewMessage { ttl_s: 300, delay_s: 0, body, assignment: None }; count];
    let post = Post {
        limits: QueueLimits::default(),
        last_known_revision: revision,
        client: &poster(),
        messages: &messages,
        trace: None,
        origin: None,
        idempotency: None,
        durability: None,
    };
    store.post_messages(queue, &post).await.unwrap();
}

/// Creates a fair queue with messages in one shard, and claims the first of them.
pub(crate) async fn fair_queue(store: &EmbeddedStore, posted: usize) -> (QueueId, ClaimId) {
    let queue = QueueId::new(ProjectId::new("p").unwrap(), "work".parse().unwrap()).unwrap();
    let keys = json!({ "_shards": 2, "_shards_per_tenant": 1 });
    let metadata = Metadata::from_store(keys.as_object().unwrap().into());
    store.create_queue(&queue, &metadata).await.unwrap();
    let revision = store.get_queue(&queue).await.unwrap().unwrap().revision;
    let assignment = Arc::new(Sharding::new(2, 1).unwrap().assign(&Tenant::new("a").unwrap()));
    let body = Body::from_msgpack(Bytes::from_static(b"\x01"));
    let message = NewMessage { ttl_s: 60, delay_s: 0, body, assignment: Some(assignment) };
    let client = ClientIdRule::Text(1..=9).parse("a client").unwrap();
    let post = Post {
        limits: QueueLimits::default(),
        last_known_revision: revision,
        client: &client,
        messages: &vec![message; posted],
        trace: None,
        origin: None,
        idempotency: None,
        durability: None,
    };
    store.post_messages(&queue, &post).await.unwrap();
    let claim = NewClaim {
        limit: 1,
        term: Term { ttl_s: 60, grace_s: 60 },
        preferred_shards: Vec::new(),
        client: ClientId::from_store("worker"),
    };
    let claim = store.create_claim(&queue, ClaimId::random(), &claim).await.unwrap().messages().unwrap().id;
    (queue, claim)
}
