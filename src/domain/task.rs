//! Tasks: work on a queue that continues in the background after its request was answered. The only
//! kind is the redrive, which moves messages of the queue to other queues.

use std::fmt;

use uuid::Uuid;

use super::{MessageId, QueueName};

/// Id of a task: a random UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaskId(Uuid);

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

impl TaskId {
    /// Returns a new random id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4())
    }

    /// Parses an id in its canonical form: lowercase, with hyphens. No task has an id in another
    /// form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Uuid::try_parse(text).ok().map(Self).filter(|id| id.to_string() == text)
    }

    /// Returns the id with these bytes, as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// Returns the sixteen bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}
