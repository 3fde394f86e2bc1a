//! Tasks of a queue: redrives, which move messages to other queues in the background.

use super::range::{check_range, own_ids};
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::{QueueId, QueueName, Redrive, Selection, Task, TaskId};
use sukkal_storage::{TaskCreation, run_redrive};

/// A request to move messages out of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedriveRequest {
    /// The queue that receives the messages; `None` for the origin of each message.
    pub to: Option<QueueName>,
    /// The messages; `None` for those that the queue has now.
    pub ids: Option<Vec<String>>,
    /// Maximum number of messages to move.
    pub limit: Option<i64>,
    /// Maximum number of messages to move in a second.
    pub per_second: Option<i64>,
}

impl Broker {
    /// Creates a task that moves messages to other queues, and begins to run it.
    pub async fn redrive(&self, caller: &Caller, queue: QueueId, request: RedriveRequest) -> Result<Task, Error> {
        let access = self.store.authorize(caller, Action::Redrive, &queue)?;
        let redrive = self.check_redrive(&queue, request)?;
        if redrive.to.is_some() && !self.store.allows(caller, Action::PostMessages) {
            return Err(self.store.forbidden_target("to"));
        }
        let unit = self.redrives.acquire(queue.project())?;
        let store = access.admit().await?;
        let this = self.clone();
        self.run_to_completion(async move {
            if let Some(to) = &redrive.to {
                let Ok(target) = QueueId::new(queue.project().clone(), to.clone()) else {
                    return Err(Error::NoQueue(queue));
                };
                if store.get_queue(&target).await?.is_none() {
                    return Err(Error::NoQueue(target));
                }
            }
            let task = match store.create_redrive(&queue, TaskId::random(), &redrive).await? {
                TaskCreation::Created(task) => task,
                TaskCreation::Running(id) => return Err(Error::Conflict(running(&queue, id))),
                TaskCreation::NoQueue => return Err(Error::NoQueue(queue)),
            };
            let access = this.store.authorize(&Caller::System, Action::RunTask, &queue)?.untraced();
            let id = task.id;
            // Not one of the writes that a process finishes before it ends: any other continues it.
            tokio::spawn(async move {
                let _until_it_ends = unit;
                if let Ok(store) = access.admit().await {
                    run_redrive(&*store, &queue, id).await;
                }
            });
            Ok(task)
        })
        .await
    }

    /// Returns the tasks of the queue, the newest first.
    pub async fn list_tasks(&self, caller: &Caller, queue: &QueueId) -> Result<Vec<Task>, Error> {
        let store = self.store.authorize(caller, Action::ListTasks, queue)?.admit().await?;
        Ok(store.list_tasks(queue).await?)
    }

    /// Returns the task.
    pub async fn get_task(&self, caller: &Caller, queue: &QueueId, id: &str) -> Result<Task, Error> {
        let store = self.store.authorize(caller, Action::GetTask, queue)?.admit().await?;
        store.get_task(queue, TaskId::parse_or_unknown(id)).await?.ok_or_else(|| no_task(queue, id))
    }

    /// Stops the task if it is running. Otherwise removes it, if it exists.
    pub async fn delete_task(&self, caller: &Caller, queue: QueueId, id: &str) -> Result<(), Error> {
        let store = self.store.authorize(caller, Action::DeleteTask, &queue)?.admit().await?;
        let id = TaskId::parse_or_unknown(id);
        self.run_to_completion(async move { Ok(store.delete_task(&queue, id).await?) }).await
    }

    fn check_redrive(&self, queue: &QueueId, request: RedriveRequest) -> Result<Redrive, Error> {
        let RedriveRequest { to, ids, limit, per_second } = request;
        if to.as_ref() == Some(queue.name()) {
            return Err(Error::Limit(format!("\"to\" is {}; it must be another queue", queue.name())));
        }
        if let Some(to) = &to {
            to.check_new().map_err(|error| Error::Limit(format!("\"to\": {error}")))?;
        }
        let selection = match (ids, limit) {
            (Some(_), Some(_)) => {
                return Err(Error::Limit("the body has \"ids\" and \"limit\"; at most one is allowed".to_owned()));
            }
            (Some(ids), None) => Selection::Ids(own_ids(queue, &ids, self.limits.max_messages_per_page)?),
            (None, Some(limit)) => Selection::First(check_range("limit", limit, 1, u32::MAX)?),
            (None, None) => Selection::All,
        };
        let per_second = per_second.map(|number| check_range("per_second", number, 1, u32::MAX)).transpose()?;
        Ok(Redrive { to, selection, per_second })
    }
}

fn no_task(queue: &QueueId, id: &str) -> Error {
    Error::NotFound(format!("Task {id} does not exist in the queue {} for project {}", queue.name(), queue.project()))
}

fn running(queue: &QueueId, id: TaskId) -> String {
    format!("Task {id} is running in the queue {}; wait until it ends, or stop it.", queue.name())
}
