//! What belongs to no queue, and is in the management store: records, such as tokens and quotas.
//! The catalogue is there too.

use async_trait::async_trait;

use super::PooledStore;
use super::search::at;
use crate::{
    Catalogue, Epoch, Error, Location, LocationPage, MeasuredQueues, NameRange, QueueUsage, QuotaStore, Read, Records,
    Row, Table, Write, Written,
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
        self.measure_located_queues(project, after, examined_max).await
    }

    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error> {
        at!(self, queue, store => store.measure_queue(queue))
    }
}

#[async_trait]
impl Catalogue for PooledStore {
    async fn find_location(&self, queue: &QueueId) -> Result<Option<Location>, Error> {
        self.0.management.find_location(queue).await
    }

    async fn locate_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Location, Error> {
        self.0.management.locate_queue(queue, pool).await
    }

    async fn replace_location(
        &self,
        queue: &QueueId,
        known: &Location,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Location>, Error> {
        self.0.management.replace_location(queue, known, pool, lowest).await
    }

    async fn remove_location(&self, queue: &QueueId, known: &Location, last_number: u64) -> Result<(), Error> {
        self.0.management.remove_location(queue, known, last_number).await
    }

    async fn list_locations(
        &self,
        project: &ProjectId,
        names: &NameRange,
        examined_max: usize,
    ) -> Result<LocationPage, Error> {
        self.0.management.list_locations(project, names, examined_max).await
    }

    async fn notify_moved(&self, queue: &QueueId) -> Result<(), Error> {
        self.0.management.notify_moved(queue).await
    }
}
