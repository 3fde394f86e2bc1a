//! Moves dead letters: messages that reached the maximum number of deliveries move to another
//! queue. A message leaves in the transaction that would have delivered it. If both queues are in
//! this file, it arrives in that transaction too.
//!
//! A message moves at most once per delivery. It keeps its delivery count, and it does not move
//! again until it is delivered in the queue that it moved to. So a queue may be its own dead-letter
//! queue, and two queues may be each other's.

use crate::embedded::engine::clock::end_s;
use crate::embedded::rows::located::Found;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::budget::RecordBudget;
use crate::embedded::transaction::write::WriteTransaction;
use crate::entry::Delivery;
use crate::moved_messages::{MovedBatch, MovedMessage, queue_named};
use crate::outbox;
use crate::policy::DeadLetters;
use crate::{DEAD_LETTER_STEPS_MAX, Error};
use sukkal_domain::{QueueId, Shard, Taken};

/// A number of messages that is larger than the number of waiters in a process.
const EVERY_WAITER: u64 = 1 << 32;

impl EmbeddedStore {
    /// Runs an operation that takes messages from a queue whose due changes have been applied. Then
    /// forwards dead letters that it has moved to the outbox.
    pub(super) async fn take_messages<T: Clone + Send + 'static>(
        &self,
        queue: &QueueId,
        mut work: impl FnMut(&mut WriteTransaction<'_>, &QueueRow, u64) -> Result<Taken<T>, Error> + Send + 'static,
    ) -> Result<Taken<T>, Error> {
        let absent = (Taken::Nothing, false);
        let step = self.write_up_to_date(queue, absent, move |store, row, now_us| {
            let taken = work(store, row, now_us)?;
            Ok((taken, store.filled_outboxes.contains(&row.number)))
        });
        let (taken, has_outbox) = step.await?;
        if has_outbox {
            outbox::start_forwarding(self, queue).await;
        }
        Ok(taken)
    }
}

impl WriteTransaction<'_> {
    /// Returns the next messages to deliver. Dead letters among them move to the dead-letter queue.
    /// If all of them are dead letters, those after them are next. When that has happened
    /// [`DEAD_LETTER_STEPS_MAX`] times, or once in a queue that is its own dead-letter queue,
    /// waiters are notified instead.
    pub(super) fn next_to_deliver(
        &mut self,
        queue: &QueueId,
        row: &QueueRow,
        limit: usize,
        prefer: &[Shard],
        now_us: u64,
    ) -> Result<Vec<Found>, Error> {
        for _ in 0..DEAD_LETTER_STEPS_MAX {
            let next = self.next_messages(row, limit, prefer, &mut RecordBudget::default())?;
            let (dead, live): (Vec<_>, Vec<_>) = next.into_iter().partition(|found| {
                let delivery = found.located.entry.delivery_state();
                let is_exhausted = |dead_letters: &DeadLetters| delivery.count >= dead_letters.count_max;
                row.policy.dead_letters.as_ref().is_some_and(is_exhausted) && !delivery.is_undelivered
            });
            if let Some(dead_letters) = &row.policy.dead_letters {
                self.move_dead_letters(queue, row.number, dead_letters, &dead, now_us)?;
            }
            if !live.is_empty() || dead.is_empty() {
                self.processed.claimed += live.len() as u64;
                return Ok(live);
            }
            // Otherwise it would go on to those that have just moved.
            if row.policy.dead_letters.as_ref().is_some_and(|dead_letters| dead_letters.target == *queue.name()) {
                break;
            }
        }
        self.notify(row.number, EVERY_WAITER);
        Ok(Vec::new())
    }

    /// Moves messages to the dead-letter queue.
    fn move_dead_letters(
        &mut self,
        source: &QueueId,
        number: u64,
        dead_letters: &DeadLetters,
        dead: &[Found],
        now_us: u64,
    ) -> Result<(), Error> {
        if dead.is_empty() {
            return Ok(());
        }
        let mut messages = Vec::with_capacity(dead.len());
        for Found { located, record } in dead {
            let before = located.entry.delivery_state();
            let delivery = match dead_letters.ttl_s {
                0 => before,
                ttl_s => Delivery { ttl_s, end_s: end_s(now_us, ttl_s), ..before },
            };
            messages.push(MovedMessage { number: 0, delivery, entry: located.entry, record: record.clone() });
            self.remove(number, located)?;
            self.change_state(number, |state| state.dead_lettered += 1)?;
            self.processed.dead_lettered += 1;
        }
        let target = queue_named(source, &dead_letters.target)?;
        self.move_messages(number, MovedBatch { source: source.clone(), target, epoch: None, messages }, now_us)
    }
}
