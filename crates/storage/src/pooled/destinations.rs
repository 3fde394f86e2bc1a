//! Messages that move from a queue to another one, which may be in another pool.

use std::sync::{Arc, Weak};

use async_trait::async_trait;

use super::PooledStore;
use super::search::at_existing;
use super::weak::WeakStore;
use crate::{Arrival, Destinations, Error, MovedBatch, MovedMessageStore, QueueEpoch, QueueStore};
use sukkal_domain::{Metadata, QueueId};

#[async_trait]
impl MovedMessageStore for PooledStore {
    async fn queue_epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        match at_existing!(self, queue, store => async { store.queue_epoch(queue).await?.ok_or(Error::NoQueue) }) {
            Err(Error::NoQueue) => Ok(None),
            found => found.map(Some),
        }
    }

    async fn receive_moved(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        let arrival = at_existing!(self, &batch.target, store => async {
            match store.receive_moved(batch).await? {
                Arrival::NoQueue => Err(Error::NoQueue),
                Arrival::Posted => Ok(Arrival::Posted),
            }
        });
        match arrival {
            Err(Error::NoQueue) => Ok(Arrival::NoQueue),
            arrival => arrival,
        }
    }
}

#[async_trait]
impl Destinations for WeakStore {
    async fn epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        self.upgrade()?.queue_epoch(queue).await
    }

    async fn create(&self, queue: &QueueId) -> Result<(), Error> {
        self.upgrade()?.create_queue(queue, &Metadata::default()).await.map(drop)
    }

    async fn deliver(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        self.upgrade()?.receive_moved(batch).await
    }

    async fn resolve_moves(&self, queue: &QueueId) -> Result<(), Error> {
        self.upgrade()?.settle_everywhere(queue).await
    }

    async fn resolve_location(&self, queue: &QueueId) -> Result<(), Error> {
        self.upgrade()?.resolve_location(queue).await
    }
}

impl PooledStore {
    /// Returns the destinations of the messages of each store.
    pub(super) fn destinations(&self) -> Weak<dyn Destinations> {
        Arc::downgrade(&self.0.all_queues)
    }
}
