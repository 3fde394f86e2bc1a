//! Tasks of a queue, which continue in the background: the trait, its arguments and its results.

use async_trait::async_trait;
use uuid::Uuid;

use super::error::Error;
use super::task_lease::LeaseFence;
use sukkal_domain::{QueueId, Redrive, Task, TaskId};

/// Maximum number of tasks that are stored for a queue. A new task replaces the oldest one.
pub const TASKS_MAX: usize = 10;
/// Maximum number of messages that one step of a redrive moves.
pub(super) const MOVED_PER_STEP_MAX: u32 = 100;

/// Stores the tasks of queues. They are deleted with their queue.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Creates a redrive, unless a task of the queue is running. Nothing is moved yet: a process
    /// must take its lease and do its steps.
    ///
    /// Unless the redrive names its messages, it covers those that are in the queue now. So it ends
    /// although new ones arrive.
    async fn create_redrive(&self, queue: &QueueId, id: TaskId, redrive: &Redrive) -> Result<TaskCreation, Error>;

    /// Takes the lease of a task for this holder. Returns `None` if another holder has it, or if
    /// the task has ended. Taking it again for the same holder returns the same fence.
    async fn take_task_lease(&self, queue: &QueueId, task: TaskId, holder: Uuid) -> Result<Option<LeaseFence>, Error>;

    /// Returns the tasks of the queue, the newest first.
    async fn list_tasks(&self, queue: &QueueId) -> Result<Vec<Task>, Error>;

    /// Returns the task, or `None` if it does not exist.
    async fn get_task(&self, queue: &QueueId, id: TaskId) -> Result<Option<Task>, Error>;

    /// Stops the task if it is running. Otherwise removes it, if it exists.
    async fn delete_task(&self, queue: &QueueId, id: TaskId) -> Result<(), Error>;

    /// Does the next step of a redrive: moves the next available messages, at most some hundreds of
    /// kilobytes, and waits until they have arrived.
    ///
    /// A message that has moved is a new message at the end of its new queue. It has its own time
    /// to live, which starts now, and no deliveries. It keeps its origin. Claimed messages are
    /// skipped. So are those without a target: without an origin, or with an origin that does not
    /// exist or is this queue.
    ///
    /// Each message arrives exactly once, wherever a step is interrupted. Has no effect unless the
    /// task is running and its lease has this fence.
    async fn redrive_step(&self, queue: &QueueId, id: TaskId, fence: LeaseFence) -> Result<RedriveStep, Error>;

    /// Ends a running task that cannot continue. Has no effect unless its lease has this fence.
    async fn fail_task(&self, queue: &QueueId, id: TaskId, fence: LeaseFence, error: &str) -> Result<(), Error>;
}

/// The result of the creation of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskCreation {
    /// The task was created.
    Created(Task),
    /// Nothing was created, because this task of the queue is running.
    Running(TaskId),
    /// Nothing was created, because the queue does not exist.
    NoQueue,
}

/// The result of a step of a redrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedriveStep {
    /// There may be more to do.
    Continue {
        /// Number of messages that this step has moved.
        moved: u64,
        /// Maximum number of messages that are moved in a second.
        per_second: Option<u32>,
    },
    /// The task is no longer running, or another process has its lease.
    Ended,
}
