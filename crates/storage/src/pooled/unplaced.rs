//! What belongs to no queue, and is in the management store: records, such as tokens and quotas.
//! The catalogue is there too.

use async_trait::async_trait;

use super::PooledStore;
use super::search::at;
use crate::{
    Catalogue, Epoch, Error, MeasuredQueues, NameRange, Place, PlacePage, QueueUsage, QuotaStore, Read, Records, Row,
    Table, Write, Written,
};
use sukkal_domain::{PoolName, ProjectId, QueueId, QueueName};

#[async_trait]
impl Records for PooledStore {
    async fn read_rows(&self, table: &'static Table, reads: Vec<Read>) -> Result<(u64, Vec<Vec<Row>>), Error> {
        self.0.management.read_rows(table, reads).await
    }

    async fn all_rows(&self, table: &'static Table) -> Result<Vec<Row>, Error> {
        self.0.management.all_rows(table).await
    }

    async fn write_rows(&self, table: &'static Table, write: Write) -> Result<Written, Error> {
        self.0.management.write_rows(table, write).await
    }
}

#[async_trait]
impl QuotaStore for PooledStore {
    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        self.measure_placed_queues(project, after, examined_max).await
    }

    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error> {
        at!(self, queue, store => store.measure_queue(queue))
    }
}

#[async_trait]
impl Catalogue for PooledStore {
    async fn find_queue(&self, queue: &QueueId) -> Result<Option<Place>, Error> {
        self.0.management.find_queue(queue).await
    }

    async fn place_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Place, Error> {
        self.0.management.place_queue(queue, pool).await
    }

    async fn replace_place(
        &self,
        queue: &QueueId,
        known: &Place,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Place>, Error> {
        self.0.management.replace_place(queue, known, pool, lowest).await
    }

    async fn remove_place(&self, queue: &QueueId, known: &Place, last_number: u64) -> Result<(), Error> {
        self.0.management.remove_place(queue, known, last_number).await
    }

    async fn list_places(
        &self,
        project: &ProjectId,
        names: &NameRange,
        examined_max: usize,
    ) -> Result<PlacePage, Error> {
        self.0.management.list_places(project, names, examined_max).await
    }

    async fn announce_place(&self, queue: &QueueId) -> Result<(), Error> {
        self.0.management.announce_place(queue).await
    }
}
