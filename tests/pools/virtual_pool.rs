//! Queues in the virtual pool of an embedded store, where a pop deletes its messages at once, as it
//! does not in the other pools.

use std::sync::Arc;

use sukkal::auth::{Caller, Client};
use sukkal::broker::Broker;
use sukkal::config::Config;
use sukkal_domain::{Body, ClientId, Metadata, NewMessage, ProjectId};
use sukkal_storage::embedded::EmbeddedStore;
use sukkal_storage::pooled::PooledStore;
use sukkal_storage::{MessageStore, QueueStore};

use super::PROJECT;
use super::moves::options;
use support::calls::plain_post;
use support::test_bed::queue_id;

#[tokio::test]
async fn popped_messages_that_do_not_reach_their_client_return() {
    let management = EmbeddedStore::in_memory().unwrap();
    let store = Arc::new(PooledStore::over_embedded(&management, options()).unwrap());
    store.set_pools(Vec::new());
    let config = Config::load(None, [], &[]).unwrap();
    let broker = Broker::new(store.clone(), config.transport.limits, config.push, None, Arc::default());
    let (queue, id) = (queue_id(PROJECT, "q"), ClientId::from_store("worker"));
    store.create_queue(&queue, &Metadata::default()).await.unwrap();
    let revision = store.get_queue(&queue).await.unwrap().unwrap().revision;
    let body = Body::from_msgpack(vec![1].into());
    let message = NewMessage { ttl_s: 600, delay_s: 0, body, assignment: None };
    store.post_messages(&queue, &plain_post(revision, &id, &[message])).await.unwrap();

    let client = Client { project: ProjectId::new(PROJECT).unwrap(), id, roles: Vec::new(), identity: None };
    let popped = broker.pop_messages(&Caller::Client(client), queue.clone(), 1, Some(1)).await.unwrap().messages();
    assert_eq!(store.get_stats(&queue, false).await.unwrap().total, 0);
    drop(popped.expect("the message is available"));
    broker.drain().await;

    assert_eq!(store.get_stats(&queue, false).await.unwrap().total, 1);
}
