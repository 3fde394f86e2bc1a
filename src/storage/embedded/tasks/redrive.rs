//! One step of a redrive. All queues are in one file, so messages move, arrive and are counted in
//! one transaction. `scripts/redrive_list.lua` and `scripts/redrive_move.lua` have the same rules.

use std::collections::HashMap;

use bytes::Bytes;

use crate::domain::message::Nonce;
use crate::domain::{MessageId, Order, QueueId, QueueName, TaskId, TaskState};
use crate::storage::embedded::engine::clock::end_s;
use crate::storage::embedded::messages::ranks::NewRecord;
use crate::storage::embedded::rows::keys::Part;
use crate::storage::embedded::rows::located::{Located, Merged};
use crate::storage::embedded::transaction::budget::RecordBudget;
use crate::storage::embedded::transaction::read::Records;
use crate::storage::embedded::transaction::write::WriteTransaction;
use crate::storage::entry::SizeClass;
use crate::storage::key::{id_of, nonce_bytes, rank_of};
use crate::storage::task_record::TaskRecord;
use crate::storage::tasks::MOVED_PER_STEP_MAX;
use crate::storage::{Error, RedriveStep, record};

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

impl WriteTransaction<'_> {
    /// Moves the next messages of a running task.
    pub(super) fn redrive(
        &mut self,
        source: &QueueId,
        number: u64,
        id: TaskId,
        mut task: TaskRecord,
        now_us: u64,
    ) -> Result<RedriveStep, Error> {
        if task.is_complete() {
            self.finish_task(number, id, task, TaskState::Done, None)?;
            return Ok(RedriveStep::Ended);
        }
        if let Some(to) = &task.to
            && self.existing(source, to)?.is_none()
        {
            let gone = task.target_gone();
            self.finish_task(number, id, task, TaskState::Failed, Some(&gone))?;
            return Ok(RedriveStep::Ended);
        }
        let batch =
            if task.ids.is_empty() { self.next_of_feed(number, &task)? } else { self.next_of_ids(number, &task)? };
        let (most, mut moved) = (task.moved_per_step_max(), 0);
        task.cursor = batch.cursor;
        let mut by_target: Vec<(QueueId, Vec<NewRecord>)> = Vec::new();
        let mut known: HashMap<QueueName, Option<QueueId>> = HashMap::new();
        for Examined { available, cursor } in &batch.messages {
            let Some(located) = available else {
                task.skipped += 1;
                continue;
            };
            let message = id_of(source, located.key())?;
            let record = Bytes::copy_from_slice(Records::new(&self.view, number).get(located.key())?.value());
            let Some(target) = self.target_of(source, &task, message, &record, &mut known)? else {
                task.skipped += 1;
                continue;
            };
            let arriving = arriving(located, message, &record, now_us)?;
            match by_target.iter_mut().find(|(other, _)| *other == target) {
                Some((_, records)) => records.push(arriving),
                None => by_target.push((target, vec![arriving])),
            }
            self.remove(number, located)?;
            moved += 1;
            if moved == most {
                task.cursor = *cursor;
                break;
            }
        }
        for (target, records) in by_target {
            self.post_moved(&target, records)?;
        }
        task.moved += moved;
        self.put_task(number, id, &task)?;
        Ok(RedriveStep::Continue { moved, per_second: task.per_second })
    }

    /// Returns the queue to which a message moves; `None` if it is skipped. `known` has the queues
    /// that were asked for before.
    fn target_of(
        &self,
        source: &QueueId,
        task: &TaskRecord,
        message: MessageId,
        record: &Bytes,
        known: &mut HashMap<QueueName, Option<QueueId>>,
    ) -> Result<Option<QueueId>, Error> {
        let name = match &task.to {
            Some(to) => Some(to.clone()),
            None => record::origin_queue(message, record)?.filter(|origin| origin != source.name()),
        };
        let Some(name) = name else {
            return Ok(None);
        };
        if let Some(target) = known.get(&name) {
            return Ok(target.clone());
        }
        let target = self.existing(source, &name)?;
        known.insert(name, target.clone());
        Ok(target)
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

    /// Returns the queue with this name in the project of `source`, if it exists.
    fn existing(&self, source: &QueueId, name: &QueueName) -> Result<Option<QueueId>, Error> {
        let Ok(queue) = QueueId::new(source.project().clone(), name.clone()) else {
            return Ok(None);
        };
        Ok(self.view.row(&queue)?.map(|_row| queue))
    }
}

/// Returns a message as it arrives in its new queue: with its own time to live, which starts now.
fn arriving(located: &Located, message: MessageId, record: &Bytes, now_us: u64) -> Result<NewRecord, Error> {
    let record = record::redriven(message, record, now_us / 1_000_000)?;
    Ok(NewRecord {
        nonce: nonce_bytes(Nonce::random()),
        delay_s: 0,
        end_s: end_s(now_us, record::ttl_s(message, &record)?),
        poster: located.entry.poster,
        size: SizeClass::of(record.len()),
        record,
        delivery: None,
        assignment: None,
    })
}
