//! The read-ahead cache stays correct.

use crate::embedded::engine::error::damaged;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::tests::fair_queue;
use crate::embedded::transaction::budget::RecordBudget;
use crate::embedded::transaction::writer::Step;
use crate::{ClaimStore, Error, MessageStore, Popped};
use sukkal_domain::{ClaimId, MessageId, QueueId};

async fn pop(store: &EmbeddedStore, queue: &QueueId) -> Popped {
    store.pop_messages(queue, ClaimId::random(), 1).await.unwrap().messages().unwrap().remove(0)
}

/// Returns the messages of a queue, by popping and restoring them.
async fn all(store: &EmbeddedStore, queue: &QueueId) -> Vec<MessageId> {
    let popped = store.pop_messages(queue, ClaimId::random(), 20).await.unwrap().messages().unwrap_or_default();
    store.restore_messages(queue, &popped).await.unwrap();
    popped.iter().map(|one| one.message.id).collect()
}

#[tokio::test]
async fn the_read_ahead_cache_follows_changes() {
    let store = EmbeddedStore::in_memory().unwrap();
    let (queue, first) = fair_queue(&store, 20).await;
    let ids = all(&store, &queue).await;

    // This pop also caches the next messages.
    assert_eq!(pop(&store, &queue).await.message.id, ids[0]);
    store.delete_messages(&queue, &ids[1..3]).await.unwrap();
    let fourth = pop(&store, &queue).await;
    assert_eq!(fourth.message.id, ids[3]);
    assert_eq!(pop(&store, &queue).await.message.id, ids[4]);
    store.restore_messages(&queue, &[fourth]).await.unwrap();
    store.release_claim(&queue, first).await.unwrap();
    assert!(pop(&store, &queue).await.message.id < ids[0]);
    assert_eq!(all(&store, &queue).await, [&ids[3..4], &ids[5..]].concat());
}

#[tokio::test]
async fn an_aborted_transaction_discards_the_read_ahead_cache() {
    let store = EmbeddedStore::in_memory().unwrap();
    let (queue, _) = fair_queue(&store, 20).await;
    let ids = all(&store, &queue).await;
    pop(&store, &queue).await;

    let queue_id = queue.clone();
    let given_up: Result<(), Error> = store
        .write(0, move |store| {
            let row = store.row(&queue_id)?.expect("it is there");
            assert_eq!(store.next_messages(&row, 5, &[], &mut RecordBudget::default())?.len(), 5);
            Err::<Step<()>, _>(damaged("this one"))
        })
        .await;

    assert!(given_up.is_err());
    assert_eq!(all(&store, &queue).await, ids[1..]);
}
