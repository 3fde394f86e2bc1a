//! The stored form of a task.
//!
//! The record begins with its state (`u8`) and these numbers: time of creation (µs), number of
//! messages selected, moved and skipped, cursor, end, limit (`u64` each), maximum number per second
//! (0: none) and number of ids (`u32` each). `scripts/shared/tasks.lua` reads and writes these. The
//! keys of the ids and the name of the target follow while the task is running. Afterwards, its
//! error does.
//!
//! The cursor of a task with ids is the number of ids that it has processed, and its end is their
//! number. Otherwise, both are ranks: the last one processed, and the last one to process.

use bytes::{Buf, BufMut, Bytes};

use super::error::Error;
use super::key::{KEY_BYTES, Key, key_of};
use super::tasks::MOVED_PER_STEP_MAX;
use sukkal_domain::{MessageId, QueueName, Rank, Redrive, Selection, Task, TaskId, TaskState};

const HEAD_BYTES: usize = 65;

/// Values of the state, which `scripts/shared/tasks.lua` uses too.
pub(super) const RUNNING: u8 = 0;
pub(super) const DONE: u8 = 1;
pub(super) const STOPPED: u8 = 2;
pub(super) const FAILED: u8 = 3;

/// A redrive as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TaskRecord {
    pub(super) state: TaskState,
    pub(super) created_us: u64,
    /// Number of messages that were selected when the task was created.
    pub(super) selected: u64,
    pub(super) moved: u64,
    pub(super) skipped: u64,
    pub(super) cursor: u64,
    pub(super) end: u64,
    /// Maximum number of messages to move.
    pub(super) limit: u64,
    pub(super) per_second: Option<u32>,
    /// Keys of the messages, if the redrive names them.
    pub(super) ids: Vec<Key>,
    pub(super) to: Option<QueueName>,
    pub(super) error: Option<String>,
}

impl TaskRecord {
    /// Returns the record of a new redrive, in a queue that has `visible` messages up to the rank
    /// `last`.
    pub(super) fn new(redrive: &Redrive, visible: u64, last: u64, now_us: u64) -> Self {
        let ids: Vec<Key> = match &redrive.selection {
            Selection::Ids(ids) => ids.iter().copied().map(key_of).collect(),
            Selection::All | Selection::First(_) => Vec::new(),
        };
        let limit = match redrive.selection {
            Selection::First(limit) => limit.into(),
            Selection::All | Selection::Ids(_) => Rank::MAX.micros(),
        };
        let count = ids.len() as u64;
        let (selected, end) = if count > 0 { (count, count) } else { (visible, last) };
        Self {
            state: TaskState::Running,
            created_us: now_us,
            selected,
            moved: 0,
            skipped: 0,
            cursor: 0,
            end,
            limit,
            per_second: redrive.per_second,
            ids,
            to: redrive.to.clone(),
            error: None,
        }
    }

    /// Returns whether the task has nothing more to move.
    pub(super) fn is_complete(&self) -> bool {
        self.cursor >= self.end || self.moved >= self.limit
    }

    /// Returns the maximum number of messages that the next step moves. It may examine more.
    pub(super) fn moved_per_step_max(&self) -> u64 {
        let pace = self.per_second.unwrap_or(u32::MAX);
        u64::from(MOVED_PER_STEP_MAX.min(pace)).min(self.limit.saturating_sub(self.moved))
    }

    /// Returns the cursor after a message that the task covers.
    pub(super) fn cursor_after(&self, message: MessageId) -> u64 {
        let position = self.ids.iter().position(|key| *key == key_of(message));
        position.map_or(message.rank().micros(), |position| position as u64 + 1)
    }

    /// Counts messages as not moved, because they have returned to their queue. `oldest` is the
    /// lowest of their ranks. The task skips them, unless it moves all messages to one queue: then
    /// it lists them again and fails, because that queue does not exist.
    pub(super) fn unmove(&mut self, count: u64, oldest: u64) {
        if self.moved < count {
            return;
        }
        self.moved -= count;
        if self.to.is_none() {
            self.skipped += count;
        } else if self.ids.is_empty() {
            self.cursor = self.cursor.min(oldest.saturating_sub(1));
        } else {
            self.cursor = self.cursor.saturating_sub(count);
        }
    }

    /// Returns the error of a task whose target was deleted.
    pub(super) fn target_gone(&self) -> String {
        format!("The queue {} does not exist any more.", self.to.as_ref().map_or("", QueueName::as_str))
    }

    /// Ends the task.
    pub(super) fn finish(&mut self, state: TaskState, error: Option<&str>) {
        (self.state, self.error) = (state, error.map(str::to_owned));
    }

    pub(super) fn task(&self, id: TaskId) -> Task {
        let left = self.selected.saturating_sub(self.moved + self.skipped).min(self.limit.saturating_sub(self.moved));
        Task {
            id,
            state: self.state,
            moved: self.moved,
            skipped: self.skipped,
            remaining: if self.state == TaskState::Done { 0 } else { left },
            created_s: self.created_us / 1_000_000,
            error: self.error.clone(),
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + KEY_BYTES * self.ids.len());
        bytes.put_u8(match self.state {
            TaskState::Running => RUNNING,
            TaskState::Done => DONE,
            TaskState::Stopped => STOPPED,
            TaskState::Failed => FAILED,
        });
        for number in [self.created_us, self.selected, self.moved, self.skipped, self.cursor, self.end, self.limit] {
            bytes.put_u64(number);
        }
        bytes.put_u32(self.per_second.unwrap_or(0));
        bytes.put_u32(u32::try_from(self.ids.len()).expect("a request has few ids"));
        if self.state == TaskState::Running {
            bytes.extend(self.ids.iter().flatten());
            bytes.extend(self.to.iter().flat_map(|to| to.as_str().bytes()));
        } else {
            bytes.extend(self.error.iter().flat_map(|error| error.bytes()));
        }
        bytes.into()
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        Self::read(bytes).ok_or_else(|| Error::Corrupt("the record of a task is invalid".to_owned()))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (mut head, mut tail) = bytes.split_at_checked(HEAD_BYTES)?;
        let state = match head.get_u8() {
            RUNNING => TaskState::Running,
            DONE => TaskState::Done,
            STOPPED => TaskState::Stopped,
            FAILED => TaskState::Failed,
            _ => return None,
        };
        let [created_us, selected, moved, skipped, cursor, end, limit] = std::array::from_fn(|_| head.get_u64());
        let (per_second, id_count) = (head.get_u32(), head.get_u32() as usize);
        let mut ids = Vec::new();
        if state == TaskState::Running {
            let (keys, rest) = tail.split_at_checked(KEY_BYTES * id_count)?;
            (ids, tail) = (keys.as_chunks().0.to_vec(), rest);
        }
        let text = Some(str::from_utf8(tail).ok()?).filter(|text| !text.is_empty());
        let (to, error) = if state == TaskState::Running { (text, None) } else { (None, text) };
        Some(Self {
            state,
            created_us,
            selected,
            moved,
            skipped,
            cursor,
            end,
            limit,
            per_second: Some(per_second).filter(|number| *number > 0),
            ids,
            to: to.map(str::parse).transpose().ok()?,
            error: error.map(str::to_owned),
        })
    }
}

/// Returns the tasks of these records, the newest first.
pub(super) fn newest_first(mut records: Vec<(TaskId, TaskRecord)>) -> Vec<Task> {
    records.sort_by_key(|(id, record)| (std::cmp::Reverse(record.created_us), *id.as_bytes()));
    records.into_iter().map(|(id, record)| record.task(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let redrive = Redrive { to: Some("q".parse().unwrap()), selection: Selection::First(7), per_second: Some(3) };
        let mut record = TaskRecord::new(&redrive, 20, 1_000, 5_000_000);
        (record.moved, record.skipped, record.cursor, record.ids) = (2, 1, 900, vec![*b"a message's."; 2]);
        assert_eq!(TaskRecord::decode(&record.encode()).unwrap(), record);
        assert_eq!(record.task(TaskId::random()).remaining, 5);

        record.finish(TaskState::Failed, Some("no"));
        let read = TaskRecord::decode(&record.encode()).unwrap();

        assert_eq!((read.state, read.error.as_deref(), read.moved), (TaskState::Failed, Some("no"), 2));
        assert!(TaskRecord::decode(&record.encode()[..HEAD_BYTES - 1]).is_err());
    }
}
