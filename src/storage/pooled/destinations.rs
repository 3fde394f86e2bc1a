//! Messages that move from a queue to another one, which may be in another pool.

use std::sync::{Arc, Weak};

use async_trait::async_trait;

use super::PooledStore;
use super::search::at_existing;
use super::weak::WeakStore;
use crate::domain::{Metadata, QueueId};
use crate::storage::{Arrival, Destinations, Error, MovedBatch, MovedMessageStore, QueueStore};

#[async_trait]
impl MovedMessageStore for PooledStore {
    async fn receive_moved(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        let target = &batch.target;
        if batch.is_redriven {
            // A store that does not have the queue remembers that it has refused these messages. So
            // only the store that the catalogue names is asked.
            self.0.places.forget(target);
        }
        let arrival = at_existing!(self, target, store => async {
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
    async fn exists(&self, queue: &QueueId) -> Result<bool, Error> {
        Ok(self.upgrade()?.get_queue(queue).await?.is_some())
    }

    async fn create(&self, queue: &QueueId) -> Result<(), Error> {
        self.upgrade()?.create_queue(queue, &Metadata::default()).await.map(drop)
    }

    async fn deliver(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        self.upgrade()?.receive_moved(batch).await
    }

    async fn settle_moves(&self, queue: &QueueId) -> Result<(), Error> {
        self.upgrade()?.settle_everywhere(queue).await
    }
}

impl PooledStore {
    /// Returns the destinations of the messages of each store.
    pub(super) fn destinations(&self) -> Weak<dyn Destinations> {
        Arc::downgrade(&self.0.all_queues)
    }
}
