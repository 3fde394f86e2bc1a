//! Moves dead letters: messages that reached the maximum number of deliveries move to another
//! queue. Both queues are in one file, so a message moves in the transaction that would have
//! delivered it.
//!
//! A message moves at most once per delivery. It keeps its delivery count, and it does not move
//! again until it is delivered in the queue that it moved to. So a queue may be its own dead-letter
//! queue, and two queues may be each other's.

use std::collections::HashMap;
use std::sync::Arc;

use crate::domain::client::Poster;
use crate::domain::message::Nonce;
use crate::domain::{Metadata, Origin, QueueId, Shard, ShardAssignment, Tenant};
use crate::storage::embedded::engine::clock::end_s;
use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::messages::ranks::NewRecord;
use crate::storage::embedded::rows::located::Found;
use crate::storage::embedded::rows::queue::{DeadLetters, QueueRow};
use crate::storage::embedded::transaction::budget::RecordBudget;
use crate::storage::embedded::transaction::write::WriteTransaction;
use crate::storage::entry::{Delivery, SizeClass};
use crate::storage::key::{id_of, nonce_bytes};
use crate::storage::{Error, record};

/// A number of messages that is larger than the number of waiters in a process.
const EVERY_WAITER: u64 = 1 << 32;

impl WriteTransaction<'_> {
    /// Returns the next messages to deliver. Dead letters among them move to the dead-letter queue.
    /// If all of them are dead letters, waiters are notified, because there may be live messages
    /// after them. `scripts/shared/dead_letters.lua` has the same rule.
    pub(super) fn next_to_deliver(
        &mut self,
        queue: &QueueId,
        row: &QueueRow,
        limit: usize,
        prefer: &[Shard],
        now_us: u64,
    ) -> Result<Vec<Found>, Error> {
        let next = self.next_messages(row, limit, prefer, &mut RecordBudget::default())?;
        let Some(dead_letters) = &row.policy.dead_letters else {
            self.processed.claimed += next.len() as u64;
            return Ok(next);
        };
        let (dead, live): (Vec<_>, Vec<_>) = next.into_iter().partition(|found| {
            let delivery = found.located.entry.delivery_state();
            delivery.count >= dead_letters.count_max && !delivery.is_undelivered
        });
        self.move_dead_letters(queue, row.number, dead_letters, &dead, now_us)?;
        if live.is_empty() && !dead.is_empty() {
            self.notify(row.number, EVERY_WAITER);
        }
        self.processed.claimed += live.len() as u64;
        Ok(live)
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
        let target = QueueId::new(source.project().clone(), dead_letters.target.clone())
            .map_err(|error| Error::Corrupt(format!("cannot move a dead letter of {source}: {error}")))?;
        let mut records = Vec::with_capacity(dead.len());
        for Found { located, record } in dead {
            let (entry, id) = (&located.entry, id_of(source, located.key())?);
            let delivery = entry.delivery_state();
            let (ttl_s, end_s) = match (dead_letters.ttl_s, delivery.ttl_s) {
                (0, 0) => (record::ttl_s(id, record)?, entry.current_end_s()),
                (0, prolonged_s) => (prolonged_s, entry.current_end_s()),
                (ttl_s, _) => (ttl_s, end_s(now_us, ttl_s)),
            };
            let origin = Origin { queue: source.name().clone(), id, claim_count: delivery.count };
            let record = record::dead_letter(record, entry, &origin, ttl_s)?;
            records.push(NewRecord {
                nonce: nonce_bytes(Nonce::random()),
                delay_s: 0,
                end_s,
                poster: entry.poster,
                size: SizeClass::of(record.len()),
                record,
                delivery: Some(Delivery { count: delivery.count, is_undelivered: true, ttl_s: 0, end_s }),
                assignment: None,
            });
            self.remove(number, located)?;
            self.change_state(number, |state| state.dead_lettered += 1)?;
            self.processed.dead_lettered += 1;
        }
        self.post_moved(&target, records)
    }

    /// Posts messages that another queue has moved, and creates the queue if it does not exist. In
    /// a fair queue, assigns their shards.
    pub(super) fn post_moved(&mut self, target: &QueueId, mut records: Vec<NewRecord>) -> Result<(), Error> {
        self.create(target, &Metadata::default())?;
        let row = self.row(target)?.ok_or_else(|| damaged("a queue"))?;
        let target_now_us = self.now_us(target);
        if self.is_fair(&row)? {
            // The messages in each shard of the target decide the assignment. Due changes that
            // exceed the budget are left, because the claim must not wait for them.
            self.apply_due_changes(&row, target_now_us)?;
        }
        if let Some(sharding) = row.policy.sharding {
            let mut assignments: HashMap<Poster, Arc<ShardAssignment>> = HashMap::new();
            for record in &mut records {
                let assign = || Arc::new(sharding.assign(&Tenant::of_poster(record.poster)));
                record.assignment = Some(assignments.entry(record.poster).or_insert_with(assign).clone());
            }
        }
        self.post(&row, target_now_us, &records)?;
        Ok(())
    }
}
