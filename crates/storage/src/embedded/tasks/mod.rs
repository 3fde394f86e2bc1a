//! Tasks of a queue and their leases. The rows belong to the queue's contents. A purge, which gives
//! a queue new contents, moves them there.

use std::collections::HashMap;

use async_trait::async_trait;
use uuid::Uuid;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::holders;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::tasks::redrive::Progress;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::outbox::{self, Outboxes};
use crate::task_lease::{TASK_LEASE_DURATION, TaskLease};
use crate::task_record::{TaskRecord, newest_first};
use crate::{Error, LeaseFence, RedriveStep, TASKS_MAX, TaskCreation, TaskStore, run_redrive, unless_unreadable};
use sukkal_domain::{QueueId, Redrive, Task, TaskId, TaskState};

mod redrive;

#[async_trait]
impl TaskStore for EmbeddedStore {
    async fn create_redrive(&self, queue: &QueueId, id: TaskId, redrive: &Redrive) -> Result<TaskCreation, Error> {
        let redrive = redrive.clone();
        self.write_up_to_date(queue, TaskCreation::NoQueue, move |store, row, now_us| {
            let mut tasks = store.view.tasks(row.number)?;
            if let Some((running, _)) = tasks.iter().find(|(_, task)| task.state == TaskState::Running) {
                return Ok(TaskCreation::Running(*running));
            }
            tasks.sort_by_key(|(_, task)| task.created_us);
            let surplus = (tasks.len() + 1).saturating_sub(TASKS_MAX);
            for (oldest, _) in tasks.iter().take(surplus) {
                store.remove_key(&task_key(row.number, Part::Task, *oldest))?;
            }
            let state = store.state(row.number)?;
            let task = TaskRecord::new(&redrive, state.total - state.delayed, state.last, now_us);
            store.put_task(row.number, id, &task)?;
            store.put_task_lease(row.number, id, TaskLease::default())?;
            Ok(TaskCreation::Created(task.task(id)))
        })
        .await
    }

    async fn list_tasks(&self, queue: &QueueId) -> Result<Vec<Task>, Error> {
        let queue = queue.clone();
        self.read(move |view| {
            let tasks = view.row(&queue)?.map(|row| view.tasks(row.number)).transpose()?;
            Ok(newest_first(tasks.unwrap_or_default()))
        })
        .await
    }

    async fn get_task(&self, queue: &QueueId, id: TaskId) -> Result<Option<Task>, Error> {
        let queue = queue.clone();
        self.read(move |view| match view.row(&queue)? {
            Some(row) => Ok(view.task(row.number, id)?.map(|task| task.task(id))),
            None => Ok(None),
        })
        .await
    }

    async fn delete_task(&self, queue: &QueueId, id: TaskId) -> Result<(), Error> {
        self.write_up_to_date(queue, (), move |store, row, _now_us| match store.view.task(row.number, id)? {
            Some(task) if task.state == TaskState::Running => {
                store.finish_task(row.number, id, task, TaskState::Stopped, None)
            }
            _ => store.remove_key(&task_key(row.number, Part::Task, id)).map(drop),
        })
        .await
    }

    async fn redrive_step(&self, queue: &QueueId, id: TaskId, fence: LeaseFence) -> Result<RedriveStep, Error> {
        let mut elsewhere = HashMap::new();
        loop {
            let (queue_id, known) = (queue.clone(), elsewhere.clone());
            let ended = Progress::Done(RedriveStep::Ended);
            let progress = self.write_up_to_date(queue, ended, move |store, row, now_us| {
                match store.held_task(row.number, id, fence, now_us)? {
                    Some(task) => store.redrive(&queue_id, row.number, (id, task), &known, now_us),
                    None => Ok(Progress::Done(RedriveStep::Ended)),
                }
            });
            match progress.await? {
                Progress::Done(step) => return Ok(step),
                Progress::InOutbox(step) => {
                    outbox::forward(self, queue).await?;
                    return Ok(step);
                }
                Progress::UnknownQueues(queues) => {
                    let destinations = self.destinations()?;
                    for queue in queues {
                        elsewhere.insert(queue.clone(), destinations.epoch(&queue).await?);
                    }
                }
            }
        }
    }

    async fn fail_task(&self, queue: &QueueId, id: TaskId, fence: LeaseFence, error: &str) -> Result<(), Error> {
        let error = error.to_owned();
        self.write_up_to_date(queue, (), move |store, row, now_us| {
            match store.held_task(row.number, id, fence, now_us)? {
                Some(task) => store.finish_task(row.number, id, task, TaskState::Failed, Some(&error)),
                None => Ok(()),
            }
        })
        .await
    }

    async fn take_task_lease(&self, queue: &QueueId, task: TaskId, holder: Uuid) -> Result<Option<LeaseFence>, Error> {
        self.write_up_to_date(queue, None, move |store, row, now_us| {
            let lease = store.view.task_lease(row.number, task)?;
            let lease =
                lease.and_then(|lease| lease.taken(holders::in_this_process(holder), now_us, TASK_LEASE_DURATION));
            if let Some(lease) = lease {
                store.put_task_lease(row.number, task, lease)?;
            }
            Ok(lease.map(TaskLease::fence))
        })
        .await
    }
}

impl EmbeddedStore {
    /// Continues a redrive that nobody works on, in a task of its own.
    pub(super) fn continue_redrive(&self, queue: &QueueId, task: TaskId) {
        let (this, queue) = (self.clone(), queue.clone());
        tokio::spawn(async move { run_redrive(&this, &queue, task).await });
    }
}

impl<T: Table> View<T> {
    /// Returns a task whose lease has expired.
    pub(super) fn abandoned_task(&self, number: u64, now_us: u64) -> Result<Option<TaskId>, Error> {
        for entry in self.all_of(number, Part::TaskLease)? {
            let (id, lease) = entry?;
            let lease = TaskLease::decode(&lease).ok_or_else(|| damaged("the lease of a task"))?;
            if !holders::current(lease).is_live(now_us, TASK_LEASE_DURATION) {
                return read_id(&id).map(Some);
            }
        }
        Ok(None)
    }

    pub(super) fn tasks(&self, number: u64) -> Result<Vec<(TaskId, TaskRecord)>, Error> {
        let mut tasks = Vec::new();
        for entry in self.all_of(number, Part::Task)? {
            let (id, task) = entry?;
            let id = read_id(&id)?;
            let read = TaskRecord::decode(&task).map_err(|error| error.of(format_args!("task {id}")));
            tasks.extend(unless_unreadable(read)?.map(|task| (id, task)));
        }
        Ok(tasks)
    }

    fn task(&self, number: u64, id: TaskId) -> Result<Option<TaskRecord>, Error> {
        let task = self.contents.get(&*task_key(number, Part::Task, id))?;
        task.map(|task| TaskRecord::decode(task.value())).transpose()
    }

    fn task_lease(&self, number: u64, id: TaskId) -> Result<Option<TaskLease>, Error> {
        let lease = self.contents.get(&*task_key(number, Part::TaskLease, id))?;
        let lease = lease.map(|lease| TaskLease::decode(lease.value()).ok_or_else(|| damaged("the lease of a task")));
        Ok(lease.transpose()?.map(holders::current))
    }
}

impl WriteTransaction<'_> {
    /// Moves the tasks of a queue to its new contents.
    pub(super) fn move_tasks(&mut self, from: u64, to: u64) -> Result<(), Error> {
        for part in [Part::Task, Part::TaskLease] {
            let rows: Vec<_> = self.view.all_of(from, part)?.collect::<Result<_, _>>()?;
            for (id, row) in rows {
                self.put(&keys::content(to, part, &id), &row)?;
            }
        }
        Ok(())
    }

    /// Returns a task and renews its lease, if the task is running and the lease has this fence.
    fn held_task(
        &mut self,
        number: u64,
        id: TaskId,
        fence: LeaseFence,
        now_us: u64,
    ) -> Result<Option<TaskRecord>, Error> {
        let lease = self.view.task_lease(number, id)?;
        let Some(lease) = lease.and_then(|lease| lease.renewed(fence, now_us, TASK_LEASE_DURATION)) else {
            return Ok(None);
        };
        self.put_task_lease(number, id, lease)?;
        Ok(self.view.task(number, id)?.filter(|task| task.state == TaskState::Running))
    }

    fn finish_task(
        &mut self,
        number: u64,
        id: TaskId,
        mut task: TaskRecord,
        state: TaskState,
        error: Option<&str>,
    ) -> Result<(), Error> {
        task.finish(state, error);
        self.put_task(number, id, &task)?;
        self.remove_key(&task_key(number, Part::TaskLease, id)).map(drop)
    }

    pub(super) fn put_task(&mut self, number: u64, id: TaskId, task: &TaskRecord) -> Result<(), Error> {
        self.put(&task_key(number, Part::Task, id), &task.encode())
    }

    fn put_task_lease(&mut self, number: u64, id: TaskId, lease: TaskLease) -> Result<(), Error> {
        self.put(&task_key(number, Part::TaskLease, id), &lease.encode())
    }
}

fn task_key(number: u64, part: Part, id: TaskId) -> Vec<u8> {
    keys::content(number, part, id.as_bytes())
}

fn read_id(bytes: &[u8]) -> Result<TaskId, Error> {
    bytes.try_into().map(TaskId::from_bytes).map_err(|_| damaged("the id of a task"))
}
