//! Tasks in Redis: a redrive moves messages to the outbox of their queue, in the step that records
//! its progress. From there the forwarder of dead letters delivers each message exactly once.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::try_join_all;
use uuid::Uuid;

use super::RedisStore;
use super::arguments;
use super::keys::{KeyName, QueueKeys};
use super::reply::{self, Reply};
use super::script::{REDRIVE_LIST, REDRIVE_MOVE, TASK_CREATE, TASK_FINISH, TASK_LEASE};
use crate::key::id_of;
use crate::moved_messages::{QueueEpoch, Target, queue_named};
use crate::outbox::Outboxes;
use crate::task_record::{FAILED, STOPPED, TaskRecord, newest_first};
use crate::tasks::MOVED_PER_STEP_MAX;
use crate::{
    Error, LeaseFence, RedriveStep, TASKS_MAX, TaskCreation, TaskStore, record, run_redrive, unless_unreadable,
};
use sukkal_domain::{QueueId, QueueName, Redrive, Task, TaskId, TaskState};

#[async_trait]
impl TaskStore for RedisStore {
    async fn create_redrive(&self, queue: &QueueId, id: TaskId, redrive: &Redrive) -> Result<TaskCreation, Error> {
        let record = TaskRecord::new(redrive, 0, 0, 0).encode();
        let args = [task_id(id), record, arguments::number(TASKS_MAX as u64)];
        let (kind, mut reply) = self.run_applying_due(&TASK_CREATE, queue, &args).await?;
        match kind.as_str() {
            "absent" => Ok(TaskCreation::NoQueue),
            "running" => Ok(TaskCreation::Running(read_task_id(&reply.bytes()?)?)),
            "created" => Ok(TaskCreation::Created(TaskRecord::decode(&reply.bytes()?)?.task(id))),
            kind => Err(reply::unknown_kind(TASK_CREATE.name, kind)),
        }
    }

    async fn list_tasks(&self, queue: &QueueId) -> Result<Vec<Task>, Error> {
        let mut reply = self.read_values(queue, "HGETALL", &QueueKeys::of(queue).key(KeyName::Tasks), &[]).await?;
        let mut records = Vec::new();
        while !reply.is_empty() {
            let (id, record) = (read_task_id(&reply.bytes()?)?, TaskRecord::decode(&reply.bytes()?));
            let read = record.map_err(|error| error.of(format_args!("queue {queue}, task {id}")));
            records.extend(unless_unreadable(read)?.map(|record| (id, record)));
        }
        Ok(newest_first(records))
    }

    async fn get_task(&self, queue: &QueueId, id: TaskId) -> Result<Option<Task>, Error> {
        let found = self.values_of(queue, &QueueKeys::of(queue).key(KeyName::Tasks), [task_id(id)]).await?;
        found.into_iter().flatten().next().map(|record| Ok(TaskRecord::decode(&record)?.task(id))).transpose()
    }

    async fn delete_task(&self, queue: &QueueId, id: TaskId) -> Result<(), Error> {
        // A repeated step must not remove the task that the first one has stopped. So this decides
        // beforehand, which is possible because a task that has ended never runs again.
        let Some(task) = self.get_task(queue, id).await? else {
            return Ok(());
        };
        if task.state == TaskState::Running {
            return self.finish_task(queue, id, STOPPED, "", None).await;
        }
        self.connection
            .command_with("HDEL", &QueueKeys::of(queue).key(KeyName::Tasks), [task_id(id).into()])
            .await
            .map(drop)
    }

    async fn redrive_step(&self, queue: &QueueId, id: TaskId, fence: LeaseFence) -> Result<RedriveStep, Error> {
        let listing = [task_id(id), arguments::number(fence.0), arguments::number(MOVED_PER_STEP_MAX.into())];
        let (kind, mut reply) = self.run_applying_due(&REDRIVE_LIST, queue, &listing).await?;
        match kind.as_str() {
            "ended" => return Ok(RedriveStep::Ended),
            "waiting" => {
                self.forward_dead_letters(queue).await?;
                return Ok(RedriveStep::Continue { moved: 0, per_second: None });
            }
            "next" => {}
            kind => return Err(reply::unknown_kind(REDRIVE_LIST.name, kind)),
        }
        let (task, mut next_cursor) = (TaskRecord::decode(&reply.bytes()?)?, reply.number()?);
        let keys = reply.read_all(Reply::bytes)?;
        let Some(targets) = self.targets(queue, &task, &keys).await? else {
            self.fail_task(queue, id, fence, &task.target_gone()).await?;
            return Ok(RedriveStep::Ended);
        };
        let movable = keys.into_iter().zip(targets).filter_map(|(key, target)| Some((key, target?)));
        let mut movable: Vec<(Bytes, Target)> = movable.collect();
        let most = usize::try_from(task.moved_per_step_max()).unwrap_or(usize::MAX);
        movable.truncate(most);
        if let Some((last, _)) = movable.last()
            && movable.len() == most
        {
            next_cursor = task.cursor_after(id_of(queue, last)?);
        }
        let mut args = listing[..2].to_vec();
        args.extend([arguments::number(task.cursor), arguments::number(next_cursor)]);
        for (key, target) in movable {
            args.extend([key, target.encode().into()]);
        }
        let (kind, mut reply) = self.run_applying_due(&REDRIVE_MOVE, queue, &args).await?;
        let moved = match kind.as_str() {
            "ended" => return Ok(RedriveStep::Ended),
            "moved" => reply.number()?,
            kind => return Err(reply::unknown_kind(REDRIVE_MOVE.name, kind)),
        };
        if moved > 0 {
            self.forward_dead_letters(queue).await?;
        }
        Ok(RedriveStep::Continue { moved, per_second: task.per_second })
    }

    async fn fail_task(&self, queue: &QueueId, id: TaskId, fence: LeaseFence, error: &str) -> Result<(), Error> {
        self.finish_task(queue, id, FAILED, error, Some(fence)).await
    }

    async fn take_task_lease(&self, queue: &QueueId, task: TaskId, holder: Uuid) -> Result<Option<LeaseFence>, Error> {
        let args = [task_id(task), Bytes::copy_from_slice(holder.as_bytes())];
        let mut reply = self.connection.run(&TASK_LEASE, &QueueKeys::of(queue), &args).await?;
        let fence = reply.text_or_nil()?;
        fence.map(|fence| reply::parse_number(&fence).map(LeaseFence)).transpose()
    }
}

impl RedisStore {
    /// Continues a redrive that no process works on, in a task of its own.
    pub(super) fn continue_redrive(&self, queue: &QueueId, task: TaskId) {
        let (this, queue) = (self.clone(), queue.clone());
        tokio::spawn(async move { run_redrive(&this, &queue, task).await });
    }

    async fn finish_task(
        &self,
        queue: &QueueId,
        id: TaskId,
        state: u8,
        error: &str,
        fence: Option<LeaseFence>,
    ) -> Result<(), Error> {
        let fence = fence.map_or_else(Bytes::new, |fence| arguments::number(fence.0));
        let error = Bytes::copy_from_slice(error.as_bytes());
        let args = [task_id(id), arguments::number(state.into()), error, fence];
        self.connection.run(&TASK_FINISH, &QueueKeys::of(queue), &args).await.map(drop)
    }

    /// Returns the queue to which each of the messages moves; `None` for one that is skipped.
    /// Returns `None` if the target of the whole redrive does not exist.
    async fn targets(
        &self,
        queue: &QueueId,
        task: &TaskRecord,
        keys: &[Bytes],
    ) -> Result<Option<Vec<Option<Target>>>, Error> {
        let target = |name: &QueueName, epoch: QueueEpoch| Target { name: name.clone(), epoch: Some(epoch) };
        if let Some(to) = &task.to {
            let epoch = self.destinations()?.epoch(&queue_named(queue, to)?).await?;
            return Ok(epoch.map(|epoch| vec![Some(target(to, epoch)); keys.len()]));
        }
        if keys.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let records = self.values_of(queue, &QueueKeys::of(queue).key(KeyName::Messages), keys.iter().cloned()).await?;
        let mut origins = Vec::with_capacity(keys.len());
        for (key, record) in keys.iter().zip(records) {
            let origin = record.map(|record| record::origin_queue(id_of(queue, key)?, &record)).transpose()?;
            origins.push(origin.flatten().filter(|origin| origin != queue.name()));
        }
        let names: BTreeSet<QueueName> = origins.iter().flatten().cloned().collect();
        let queues = names.iter().map(|name| queue_named(queue, name)).collect::<Result<Vec<_>, _>>()?;
        let destinations = self.destinations()?;
        let epochs = try_join_all(queues.iter().map(|queue| destinations.epoch(queue))).await?;
        let epochs: BTreeMap<QueueName, Option<QueueEpoch>> = names.into_iter().zip(epochs).collect();
        let targets = origins.into_iter().map(|origin| {
            let name = origin?;
            epochs[&name].map(|epoch| target(&name, epoch))
        });
        Ok(Some(targets.collect()))
    }
}

fn task_id(id: TaskId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

fn read_task_id(bytes: &[u8]) -> Result<TaskId, Error> {
    let id = bytes.try_into().map_err(|_| Error::Corrupt(format!("the id of a task has {} bytes", bytes.len())))?;
    Ok(TaskId::from_bytes(id))
}
