//! Messages of queues in pools, and their sealed bodies.

use async_trait::async_trait;

use super::PooledStore;
use super::search::{at, at_existing};
use crate::{
    DeleteOutcome, Error, Listing, MessageStore, Page, Popped, Post, PostOutcome, SealedBodies, SealedPage,
    SealedPosition, SealedReplacement,
};
use sukkal_domain::{ClaimId, Creation, Durability, Message, MessageId, Metadata, QueueId, Stats, Taken};

#[async_trait]
impl MessageStore for PooledStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        let outcome = at_existing!(self, queue, store => async {
            match store.post_messages(queue, post).await? {
                PostOutcome::Stale(None) => Err(Error::NoQueue),
                outcome => Ok(outcome),
            }
        });
        match outcome {
            Err(Error::NoQueue) => Ok(PostOutcome::Stale(None)),
            outcome => outcome,
        }
    }

    async fn check_durability(&self, queue: &QueueId, level: Durability) -> Result<(), Error> {
        let store = match self.search(queue, false).next().await {
            Err(Error::NoQueue) => return self.choose_pool(queue, &Metadata::default(), Some(level)).await.map(drop),
            store => store?,
        };
        store.check_durability(queue, level).await
    }

    async fn create_queue_for(&self, queue: &QueueId, level: Durability) -> Result<Creation, Error> {
        self.create_where_possible(queue, &Metadata::default(), Some(level)).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        at!(self, queue, store => store.list_messages(queue, listing))
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId], with_states: bool) -> Result<Vec<Message>, Error> {
        at!(self, queue, store => store.get_messages(queue, ids, with_states))
    }

    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<ClaimId>,
    ) -> Result<DeleteOutcome, Error> {
        at!(self, queue, store => store.delete_message(queue, id, claim))
    }

    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
        at!(self, queue, store => store.delete_messages(queue, ids))
    }

    async fn delete_claimed(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims: &[ClaimId],
    ) -> Result<DeleteOutcome, Error> {
        at!(self, queue, store => store.delete_claimed(queue, ids, claims))
    }

    async fn pop_messages(&self, queue: &QueueId, pop: ClaimId, limit: usize) -> Result<Taken<Vec<Popped>>, Error> {
        at!(self, queue, store => store.pop_messages(queue, pop, limit))
    }

    async fn complete_pop(&self, queue: &QueueId, pop: ClaimId) -> Result<(), Error> {
        at!(self, queue, store => store.complete_pop(queue, pop))
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        at!(self, queue, store => store.restore_messages(queue, popped))
    }

    async fn purge_queue(&self, queue: &QueueId) -> Result<(), Error> {
        at!(self, queue, store => store.purge_queue(queue))
    }

    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        at!(self, queue, store => store.get_stats(queue, detailed))
    }
}

#[async_trait]
impl SealedBodies for PooledStore {
    async fn list_sealed(&self, queue: &QueueId, after: Option<&SealedPosition>) -> Result<SealedPage, Error> {
        at!(self, queue, store => store.list_sealed(queue, after))
    }

    async fn replace_sealed(&self, queue: &QueueId, replacements: &[SealedReplacement]) -> Result<u64, Error> {
        at!(self, queue, store => store.replace_sealed(queue, replacements))
    }
}
