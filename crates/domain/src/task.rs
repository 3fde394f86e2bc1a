//! Tasks: work on a queue that continues in the background after its request was answered. The only
//! kind is the redrive, which moves messages of the queue to other queues.

use super::random_id::random_id;
use super::{MessageId, QueueName};

random_id! {
    /// Id of a task: a random UUID.
    TaskId
}

/// A task, as its store reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Id of the task.
    pub id: TaskId,
    /// What the task is doing.
    pub state: TaskState,
    /// Number of messages that it has moved.
    pub moved: u64,
    /// Number of messages that it has passed without moving them.
    pub skipped: u64,
    /// Maximum number of messages that it may still move.
    pub remaining: u64,
    /// Time of its creation by the store's clock, in whole seconds since 1970.
    pub created_s: u64,
    /// Why it has failed.
    pub error: Option<String>,
}

/// What a task is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// It is working, or waits until a process continues it.
    Running,
    /// It has finished its work, and all messages that it moved have arrived.
    Done,
    /// A client has stopped it.
    Stopped,
    /// It could not continue.
    Failed,
}

/// A request to move messages out of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    /// The queue that receives the messages. Without it, each message moves to the queue of its
    /// origin.
    pub to: Option<QueueName>,
    /// The messages.
    pub selection: Selection,
    /// Maximum number of messages that are moved in a second.
    pub per_second: Option<u32>,
}

/// The messages that a redrive moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// The messages that are in the queue when the task is created.
    All,
    /// The first of these messages that can be moved, at most this many.
    First(u32),
    /// The messages with these ids; not empty, and each id once.
    Ids(Vec<MessageId>),
}
