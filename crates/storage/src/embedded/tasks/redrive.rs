//! One step of a redrive. Messages that stay in this file move, arrive and are counted in one
//! transaction. The others go to the outbox. `scripts/redrive_list.lua` and
//! `scripts/redrive_move.lua` have the same rules.

use std::collections::{BTreeSet, HashMap};

use bytes::Bytes;

use crate::embedded::engine::clock::end_s;
use crate::embedded::rows::keys::Part;
use crate::embedded::rows::located::{Located, Merged};
use crate::embedded::transaction::budget::RecordBudget;
use crate::embedded::transaction::read::Records;
use crate::embedded::transaction::write::WriteTransaction;
use crate::entry::Delivery;
use crate::key::{id_of, rank_of};
use crate::moved_messages::{MovedBatch, MovedMessage, QueueEpoch, queue_named};
use crate::task_record::TaskRecord;
use crate::tasks::MOVED_PER_STEP_MAX;
use crate::{Error, RedriveStep, record};
use sukkal_domain::{Order, QueueId, TaskId, TaskState};

/// Maximum number of messages that one step examines.
const EXAMINED_PER_STEP: usize = 1_000;

/// The next messages of a redrive.
struct Batch {
    messages: Vec<Examined>,
    /// The cursor after this batch.
    cursor: u64,
}

/// A message of a redrive.
struct Examined {
    /// Where the message is; `None` if it is claimed or missing.
    available: Option<Located>,
    /// The cursor after this message.
    cursor: u64,
}

/// What a transaction of a redrive has done.
#[derive(Clone)]
pub(super) enum Progress {
    /// The step is complete.
    Done(RedriveStep),
    /// The step is complete when the messages in the outbox have been forwarded.
    InOutbox(RedriveStep),
    /// Nothing was moved, because it is not known whether these queues exist in another store.
    UnknownQueues(BTreeSet<QueueId>),
}

/// Whether a queue exists in any store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Existence {
    Exists(QueueEpoch),
    Missing,
    Unknown,
}

impl WriteTransaction<'_> {
    /// Moves the next messages of a running task. `elsewhere` says whether queues that are not in
    /// this file exist in another store.
    pub(super) fn redrive(
        &mut self,
        source: &QueueId,
        number: u64,
        (id, mut task): (TaskId, TaskRecord),
        elsewhere: &HashMap<QueueId, Option<QueueEpoch>>,
        now_us: u64,
    ) -> Result<Progress, Error> {
        if self.view.has_outbox(source)? {
            return Ok(Progress::InOutbox(RedriveStep::Continue { moved: 0, per_second: None }));
        }
        if task.is_complete() {
            self.finish_task(number, id, task, TaskState::Done, None)?;
            return Ok(Progress::Done(RedriveStep::Ended));
        }
        let to = task.to.as_ref().map(|to| queue_named(source, to)).transpose()?;
        if let Some(to) = &to {
            match self.existence(to, elsewhere)? {
                Existence::Exists(_) => {}
                Existence::Unknown => return Ok(Progress::UnknownQueues(BTreeSet::from([to.clone()]))),
                Existence::Missing => {
                    let gone = task.target_gone();
                    self.finish_task(number, id, task, TaskState::Failed, Some(&gone))?;
                    return Ok(Progress::Done(RedriveStep::Ended));
                }
            }
        }
        let batch =
            if task.ids.is_empty() { self.next_of_feed(number, &task)? } else { self.next_of_ids(number, &task)? };
        let (most, mut leaving, mut unknown) = (task.moved_per_step_max(), Vec::new(), BTreeSet::new());
        task.cursor = batch.cursor;
        for Examined { available, cursor } in batch.messages {
            let Some(located) = available else {
                task.skipped += 1;
                continue;
            };
            let record = Bytes::copy_from_slice(Records::new(&self.view, number).get(located.key())?.value());
            let target = match &to {
                Some(to) => Some(to.clone()),
                None => origin_of(source, &located, &record)?,
            };
            match target.map(|target| Ok::<_, Error>((self.existence(&target, elsewhere)?, target))).transpose()? {
                None | Some((Existence::Missing, _)) => task.skipped += 1,
                Some((Existence::Unknown, target)) => drop(unknown.insert(target)),
                Some((Existence::Exists(epoch), target)) => leaving.push((target, epoch, located, record)),
            }
            if leaving.len() as u64 == most {
                task.cursor = cursor;
                break;
            }
        }
        if !unknown.is_empty() {
            return Ok(Progress::UnknownQueues(unknown));
        }
        let moved = leaving.len() as u64;
        self.move_redriven(source, number, leaving, now_us)?;
        task.moved += moved;
        self.put_task(number, id, &task)?;
        let step = RedriveStep::Continue { moved, per_second: task.per_second };
        let in_outbox = self.filled_outboxes.contains(&number);
        Ok(if in_outbox { Progress::InOutbox(step) } else { Progress::Done(step) })
    }

    /// Moves these messages to these queues, in order.
    fn move_redriven(
        &mut self,
        source: &QueueId,
        number: u64,
        leaving: Vec<(QueueId, QueueEpoch, Located, Bytes)>,
        now_us: u64,
    ) -> Result<(), Error> {
        let mut batches: Vec<MovedBatch> = Vec::new();
        for (target, epoch, located, record) in leaving {
            let ttl_s = record::ttl_s(id_of(source, located.key())?, &record)?;
            let before = located.entry.delivery_state();
            let delivery = Delivery { ttl_s, end_s: end_s(now_us, ttl_s), ..before };
            let message = MovedMessage { number: 0, delivery, entry: located.entry, record };
            self.remove(number, &located)?;
            if let Some(batch) = batches.iter_mut().find(|batch| batch.target == target) {
                batch.messages.push(message);
            } else {
                let messages = vec![message];
                batches.push(MovedBatch { source: source.clone(), target, epoch: Some(epoch), messages });
            }
        }
        batches.into_iter().try_for_each(|batch| self.move_messages(number, batch, now_us))
    }

    fn existence(&self, queue: &QueueId, elsewhere: &HashMap<QueueId, Option<QueueEpoch>>) -> Result<Existence, Error> {
        if let Some(row) = self.view.row(queue)? {
            return Ok(Existence::Exists(row.epoch()));
        }
        let elsewhere = if self.has_other_stores { elsewhere.get(queue).copied() } else { Some(None) };
        Ok(match elsewhere {
            Some(Some(epoch)) => Existence::Exists(epoch),
            Some(None) => Existence::Missing,
            None => Existence::Unknown,
        })
    }

    /// Returns the next messages of the feed.
    fn next_of_feed(&self, number: u64, task: &TaskRecord) -> Result<Batch, Error> {
        let (mut available, mut budget) = (0, RecordBudget::default());
        let mut batch = Batch { messages: Vec::new(), cursor: task.cursor };
        let sets = [Part::Ready, Part::InFlight].map(|set| self.view.entries(number, set, task.cursor + 1));
        let feed = Merged::new(sets.into_iter().collect::<Result<_, _>>()?, Order::OldestFirst)?;
        for located in feed.take(EXAMINED_PER_STEP) {
            let located = located?;
            let rank = rank_of(located.key());
            if rank > task.end {
                break;
            }
            let is_available = located.set == Part::Ready;
            if is_available && (available == MOVED_PER_STEP_MAX || !budget.try_add(&located)) {
                return Ok(batch);
            }
            available += u32::from(is_available);
            batch.messages.push(Examined { available: Some(located).filter(|_| is_available), cursor: rank });
            batch.cursor = rank;
        }
        if batch.messages.len() < EXAMINED_PER_STEP {
            batch.cursor = task.end;
        }
        Ok(batch)
    }

    /// Returns the next messages that the request names.
    fn next_of_ids(&self, number: u64, task: &TaskRecord) -> Result<Batch, Error> {
        let mut budget = RecordBudget::default();
        let mut batch = Batch { messages: Vec::new(), cursor: task.cursor };
        let done = usize::try_from(task.cursor).unwrap_or(usize::MAX);
        for key in task.ids.iter().skip(done) {
            let available = self.view.located_in(number, Part::Ready, key)?;
            if available.as_ref().is_some_and(|located| !budget.try_add(located)) {
                break;
            }
            batch.cursor += 1;
            batch.messages.push(Examined { available, cursor: batch.cursor });
        }
        Ok(batch)
    }
}

/// Returns the queue from which a message came; `None` if it is not a dead letter, or is of this
/// queue.
fn origin_of(source: &QueueId, located: &Located, record: &Bytes) -> Result<Option<QueueId>, Error> {
    let origin = record::origin_queue(id_of(source, located.key())?, record)?;
    origin.filter(|origin| origin != source.name()).map(|origin| queue_named(source, &origin)).transpose()
}
