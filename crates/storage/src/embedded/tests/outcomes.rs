//! Stored outcomes of posts with an idempotency key.

use serde_json::Value;

use crate::embedded::rows::keys;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::tests::{poster, queue};
use crate::embedded::transaction::writer::Step;
use crate::{MessageStore, Post, PostOutcome, QueueStore};
use sukkal_domain::{Body, IdempotencyKey, NewMessage, QueueLimits};

/// It has stored a digest of 16 bytes.
#[tokio::test]
async fn a_post_of_an_earlier_release_can_be_repeated() {
    let store = EmbeddedStore::in_memory().unwrap();
    let queue = queue(&store, "q", Value::Null).await;
    let body = Body::from_msgpack(rmp_serde::to_vec("body").unwrap().into());
    let messages = vec![NewMessage { ttl_s: 300, delay_s: 0, body, assignment: None }; 2];
    let last_known_revision = store.get_queue(&queue).await.unwrap().unwrap().revision;
    let post = async |content: &[u8]| {
        let key = IdempotencyKey::new(b"k", content).unwrap();
        let post = Post {
            limits: QueueLimits::default(),
            last_known_revision,
            client: &poster(),
            messages: &messages,
            trace: None,
            origin: None,
            idempotency: Some((&key, 600)),
            durability: None,
        };
        store.post_messages(&queue, &post).await.unwrap()
    };
    let first = post(b"content").await;
    assert_eq!(post(b"other").await, PostOutcome::KeyReused);

    let (of_queue, name) = (queue.clone(), IdempotencyKey::new(b"k", b"").unwrap().name(&poster()));
    let replaced = store.write(0, move |store| {
        let key = keys::outcome(store.row(&of_queue)?.expect("it is there").number, name);
        let stored = store.remove_registry(&key)?.expect("the outcome is stored");
        store.put_registry(&key, &[&stored[..8], &[b'd'; 16], &stored[25..]].concat())?;
        Ok(Step::Done(()))
    });
    replaced.await.unwrap();

    assert_eq!(post(b"other").await, first);
}
