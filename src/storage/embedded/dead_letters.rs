//! Dead letters: messages that were delivered as often as their queue allows move to another queue. Both queues are in
//! one file, so a message moves in the transaction that would have delivered it.
//!
//! A message moves at most once per delivery: it keeps its count, and until it was delivered in the queue that it was
//! moved to it does not move again. So a queue may be its own dead-letter queue, and two may be each other's.

use std::collections::HashMap;
use std::sync::Arc;

use super::clock::end_s;
use super::failure::damaged;
use super::located::Found;
use super::posting::NewRecord;
use super::state::{DeadLetters, Row};
use super::view::Room;
use super::writing::Writing;
use crate::domain::client::Poster;
use crate::domain::message::Nonce;
use crate::domain::{Lot, Metadata, Origin, QueueId, Shard, Tenant};
use crate::storage::entry::{Delivery, SizeClass};
use crate::storage::key::{id_of, nonce_bytes};
use crate::storage::{Error, record};

/// More messages than a process has waiters.
const EVERY_WAITER: u64 = 1 << 32;

impl Writing<'_> {
    /// The messages that are delivered next. Those of them that are dead move to the queue for dead letters; if that is so for
    /// all, waiters are notified, because there may be others behind them. `scripts/shared/dead_letters.lua` has the same
    /// rule.
    pub(super) fn next_to_deliver(
        &mut self,
        queue: &QueueId,
        row: &Row,
        limit: usize,
        prefer: &[Shard],
        now_us: u64,
    ) -> Result<Vec<Found>, Error> {
        let next = self.next_messages(row, limit, prefer, &mut Room::default())?;
        let Some(dead_letters) = &row.policy.dead_letters else {
            return Ok(next);
        };
        let (dead, live): (Vec<_>, Vec<_>) = next.into_iter().partition(|found| {
            let delivery = found.located.entry.delivery_state();
            delivery.count >= dead_letters.count_max && !delivery.is_undelivered
        });
        self.move_dead(queue, row.number, dead_letters, &dead, now_us)?;
        if live.is_empty() && !dead.is_empty() {
            self.tell(row.number, EVERY_WAITER);
        }
        Ok(live)
    }

    /// Moves messages to the queue for dead letters.
    fn move_dead(
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
            .map_err(|error| Error::Corrupt(format!("a dead letter of {source}: {error}")))?;
        self.create(&target, &Metadata::default())?;
        let row = self.row(&target)?.ok_or_else(|| damaged("a queue"))?;
        let target_now_us = self.now_us(&target);
        if self.is_fair(&row)? {
            // What the target holds decides where the messages go. What one step leaves to be applied must not keep the
            // claim waiting.
            self.settle(&row, target_now_us)?;
        }
        let mut lots: HashMap<Poster, Arc<Lot>> = HashMap::new();
        let mut records = Vec::with_capacity(dead.len());
        for Found { located, record } in dead {
            let (entry, id) = (&located.entry, id_of(source, located.key())?);
            let delivery = entry.delivery_state();
            let (ttl_s, ends_s) = match (dead_letters.ttl_s, delivery.ttl_s) {
                (0, 0) => (record::ttl_s(id, record)?, entry.ends_s()),
                (0, prolonged_s) => (prolonged_s, entry.ends_s()),
                (ttl_s, _) => (ttl_s, end_s(now_us, ttl_s)),
            };
            let lot = row.policy.sharding.map(|sharding| {
                let draw = || Arc::new(sharding.draw(&Tenant::of_poster(entry.poster)));
                lots.entry(entry.poster).or_insert_with(draw).clone()
            });
            let origin = Origin { queue: source.name().clone(), id, claim_count: delivery.count };
            let record = record::dead_letter(record, entry, &origin, ttl_s)?;
            records.push(NewRecord {
                nonce: nonce_bytes(Nonce::random()),
                delay_s: 0,
                end_s: ends_s,
                poster: entry.poster,
                size: SizeClass::of(record.len()),
                record,
                delivery: Some(Delivery { count: delivery.count, is_undelivered: true, ttl_s: 0, end_s: ends_s }),
                lot,
            });
            self.remove(number, located)?;
        }
        self.post(&row, target_now_us, &records)?;
        Ok(())
    }
}
