//! Tasks of queues in pools.

use async_trait::async_trait;
use uuid::Uuid;

use super::PooledStore;
use super::search::at;
use crate::{Error, LeaseFence, RedriveStep, TaskCreation, TaskStore};
use sukkal_domain::{QueueId, Redrive, Task, TaskId};

#[async_trait]
impl TaskStore for PooledStore {
    async fn create_redrive(&self, queue: &QueueId, id: TaskId, redrive: &Redrive) -> Result<TaskCreation, Error> {
        at!(self, queue, store => store.create_redrive(queue, id, redrive))
    }

    async fn list_tasks(&self, queue: &QueueId) -> Result<Vec<Task>, Error> {
        at!(self, queue, store => store.list_tasks(queue))
    }

    async fn get_task(&self, queue: &QueueId, id: TaskId) -> Result<Option<Task>, Error> {
        at!(self, queue, store => store.get_task(queue, id))
    }

    async fn delete_task(&self, queue: &QueueId, id: TaskId) -> Result<(), Error> {
        at!(self, queue, store => store.delete_task(queue, id))
    }

    async fn redrive_step(&self, queue: &QueueId, id: TaskId, fence: LeaseFence) -> Result<RedriveStep, Error> {
        at!(self, queue, store => store.redrive_step(queue, id, fence))
    }

    async fn fail_task(&self, queue: &QueueId, id: TaskId, fence: LeaseFence, error: &str) -> Result<(), Error> {
        at!(self, queue, store => store.fail_task(queue, id, fence, error))
    }

    async fn take_task_lease(&self, queue: &QueueId, task: TaskId, holder: Uuid) -> Result<Option<LeaseFence>, Error> {
        at!(self, queue, store => store.take_task_lease(queue, task, holder))
    }
}
