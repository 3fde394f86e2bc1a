//! Tasks of queues in pools.

use async_trait::async_trait;
use uuid::Uuid;

use super::PooledStore;
use super::search::at;
use crate::domain::{QueueId, Redrive, Task, TaskId};
use crate::storage::{Driver, Error, LeaseFence, RedriveStep, TaskCreation, TaskLeases, TaskStore};

#[async_trait]
impl TaskStore for PooledStore {
    async fn create_redrive(&self, queue: &QueueId, id: TaskId, redrive: &Redrive) -> Result<TaskCreation, Error> {
        at!(self, queue, store => store.create_redrive(queue, id, redrive))
    }

    async fn list_tasks(&self, queue: &QueueId) -> Result<Vec<Task>, Error> {
        at!(self, queue, store => async {
            let tasks = store.list_tasks(queue).await?;
            self.require_queue_unless(!tasks.is_empty(), &*store, queue).await?;
            Ok(tasks)
        })
    }

    async fn get_task(&self, queue: &QueueId, id: TaskId) -> Result<Option<Task>, Error> {
        at!(self, queue, store => async {
            let task = store.get_task(queue, id).await?;
            self.require_queue_unless(task.is_some(), &*store, queue).await?;
            Ok(task)
        })
    }

    async fn delete_task(&self, queue: &QueueId, id: TaskId) -> Result<(), Error> {
        at!(self, queue, store => async {
            if store.get_task(queue, id).await?.is_none() {
                return self.require_queue_unless(false, &*store, queue).await;
            }
            store.delete_task(queue, id).await
        })
    }

    async fn redrive_step(&self, queue: &QueueId, id: TaskId, fence: LeaseFence) -> Result<RedriveStep, Error> {
        at!(self, queue, store => store.redrive_step(queue, id, fence))
    }

    async fn fail_task(&self, queue: &QueueId, id: TaskId, fence: LeaseFence, error: &str) -> Result<(), Error> {
        at!(self, queue, store => store.fail_task(queue, id, fence, error))
    }
}

#[async_trait]
impl TaskLeases for PooledStore {
    async fn take_task_lease(&self, queue: &QueueId, task: TaskId, holder: Uuid) -> Result<Option<LeaseFence>, Error> {
        at!(self, queue, store => store.take_task_lease(queue, task, holder))
    }
}

impl PooledStore {
    /// Fails with [`Error::NoQueue`] if the store does not have the queue, unless its reply has shown
    /// that it does. A store in Redis reads tasks without looking whether the queue exists. In the
    /// empty store, no queue exists.
    async fn require_queue_unless(&self, is_shown: bool, store: &dyn Driver, queue: &QueueId) -> Result<(), Error> {
        if is_shown || self.is_nowhere(store) || store.get_queue(queue).await?.is_some() {
            return Ok(());
        }
        Err(Error::NoQueue)
    }
}
