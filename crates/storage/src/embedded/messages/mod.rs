//! Message operations of the store. Each operation that is more than a call has a file here.

use async_trait::async_trait;

use crate::embedded::rows::keys::own_keys;
use crate::embedded::rows::located::Located;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::writer::Step;
use crate::{DeleteOutcome, Error, Listing, MessageStore, Page, Popped, Post, PostOutcome};
use sukkal_domain::{ClaimId, Durability, Message, MessageId, QueueId, Stats, Taken};

mod delete;
pub(super) mod list;
mod pop;
mod post;
pub(super) mod ranks;
mod states;
mod stats;
mod stored;
pub(super) mod summary;

#[async_trait]
impl MessageStore for EmbeddedStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        post::post_messages(self, queue, post).await
    }

    async fn check_durability(&self, _queue: &QueueId, level: Durability) -> Result<(), Error> {
        post::check_durability(self, level)
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        list::list_messages(self, queue, listing).await
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId], with_states: bool) -> Result<Vec<Message>, Error> {
        let (queue_id, keys) = (queue.clone(), own_keys(queue, ids));
        let messages = self.read_up_to_date(queue, move |view, row, state, now_us| {
            let located = keys.iter().map(|key| view.located(row.number, state, key)).collect::<Result<Vec<_>, _>>()?;
            let located: Vec<Located> = located.into_iter().flatten().collect();
            if with_states {
                return view.messages_with_states(&queue_id, row.number, state, &located, now_us);
            }
            view.messages(&queue_id, row.number, located, now_us)
        });
        Ok(messages.await?.unwrap_or_default())
    }

    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<ClaimId>,
    ) -> Result<DeleteOutcome, Error> {
        delete::delete_message(self, queue, id, claim).await
    }

    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
        delete::delete_messages(self, queue, ids).await
    }

    async fn delete_claimed(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims: &[ClaimId],
    ) -> Result<DeleteOutcome, Error> {
        delete::delete_claimed(self, queue, ids, claims).await
    }

    async fn pop_messages(&self, queue: &QueueId, pop: ClaimId, limit: usize) -> Result<Taken<Vec<Popped>>, Error> {
        pop::pop_messages(self, queue, pop, limit).await
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        pop::restore_messages(self, queue, popped).await
    }

    async fn purge_queue(&self, queue: &QueueId) -> Result<(), Error> {
        let queue = queue.clone();
        self.write(0, move |store| store.purge(&queue).map(Step::Done)).await
    }

    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        stats::get_stats(self, queue, detailed).await
    }
}
