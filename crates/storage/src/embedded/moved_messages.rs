//! Messages that move from one queue to another: directly if both queues are in this file, else
//! through the outbox. `scripts/dead_letter_post.lua` has the same rules for arriving messages.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Buf;
use redb::ReadableTable;

use crate::Error;
use crate::embedded::engine::clock;
use crate::embedded::engine::error::damaged;
use crate::embedded::messages::ranks::NewRecord;
use crate::embedded::rows::keys;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::key::nonce_bytes;
use crate::moved_messages::{Arrival, MovedBatch, MovedMessageStore, QueueEpoch};
use sukkal_domain::client::Poster;
use sukkal_domain::message::Nonce;
use sukkal_domain::{Metadata, QueueId, ShardAssignment, Tenant};

/// How long the number of the last message from a queue is remembered, in microseconds: longer than
/// forwarding can take.
const REMEMBERED_US: u64 = 24 * 3_600 * 1_000_000;
/// Length of the time at the start of a row, in bytes.
const TIME_BYTES: usize = 8;

#[async_trait]
impl MovedMessageStore for EmbeddedStore {
    async fn queue_epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        let queue = queue.clone();
        self.read(move |view| Ok(view.row(&queue)?.map(|row| row.epoch()))).await
    }

    async fn receive_moved(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        let bytes = batch.messages.iter().map(|message| message.record.len()).sum();
        let batch = batch.clone();
        self.write(bytes, move |store| store.receive(&batch)).await
    }
}

impl WriteTransaction<'_> {
    /// Moves messages that have left the queue with these contents. If their new queue does not
    /// exist in any store, it is created.
    pub(super) fn move_messages(&mut self, contents: u64, batch: MovedBatch, now_us: u64) -> Result<(), Error> {
        if self.has_other_stores && self.view.row(&batch.target)?.is_none() {
            return self.put_into_outbox(contents, batch, now_us);
        }
        self.create(&batch.target, &Metadata::default())?;
        let row = self.row(&batch.target)?.ok_or_else(|| damaged("a queue"))?;
        let target_now_us = self.now_us(&batch.target);
        if self.is_fair(&row)? {
            // The messages in each shard of the target decide the assignment. Due changes that
            // exceed the budget are left, because the claim must not wait for them.
            self.apply_due_changes(&row, target_now_us)?;
        }
        self.post_moved(&row, &batch, 0, target_now_us)
    }

    /// Posts the messages of a batch that have not arrived before.
    fn receive(&mut self, batch: &MovedBatch) -> Result<Step<Arrival>, Error> {
        let (source, target) = (&batch.source, &batch.target);
        let arrived = keys::received(target, source.name());
        let ((_, last), last_arrived) = (batch.numbers(), self.remembered(&arrived)?);
        if last <= last_arrived {
            return Ok(Step::Done(Arrival::Posted));
        }
        let row = self.row(target)?.filter(|row| batch.epoch.is_none_or(|epoch| epoch == row.epoch()));
        let Some(row) = row else {
            return Ok(Step::Done(Arrival::NoQueue));
        };
        let now_us = self.now_us(target);
        if self.is_fair(&row)? && self.apply_due_changes(&row, now_us)? {
            return Ok(Step::Again);
        }
        self.post_moved(&row, batch, last_arrived, now_us)?;
        self.remember(&arrived, last)?;
        Ok(Step::Done(Arrival::Posted))
    }

    /// Posts the messages of a batch with numbers above `last_arrived`. In a fair queue, assigns
    /// their shards.
    fn post_moved(&mut self, row: &QueueRow, batch: &MovedBatch, last_arrived: u64, now_us: u64) -> Result<(), Error> {
        let mut assignments: HashMap<Poster, Arc<ShardAssignment>> = HashMap::new();
        let mut records = Vec::with_capacity(batch.messages.len());
        // A message that moves within this file has the number 0.
        for message in batch.messages.iter().filter(|message| last_arrived == 0 || message.number > last_arrived) {
            let arriving = message.arriving(&batch.source, batch.epoch.is_some())?;
            let assignment = row.policy.sharding.map(|sharding| {
                let assign = || Arc::new(sharding.assign(&Tenant::of_poster(arriving.poster)));
                assignments.entry(arriving.poster).or_insert_with(assign).clone()
            });
            records.push(NewRecord {
                nonce: nonce_bytes(Nonce::random()),
                delay_s: 0,
                record: arriving.record,
                end_s: arriving.end_s,
                poster: arriving.poster,
                size: arriving.size,
                delivery: arriving.delivery,
                assignment,
            });
        }
        self.post(row, now_us, &records).map(drop)
    }

    /// Returns the number in a row about messages from another queue; 0 if there is none.
    fn remembered(&self, key: &[u8]) -> Result<u64, Error> {
        let Some(row) = self.view.registry.get(key)? else {
            return Ok(0);
        };
        let number = row.value().get(TIME_BYTES..).and_then(|mut number| number.try_get_u64().ok());
        number.ok_or_else(|| damaged("the number of the last message from another queue"))
    }

    fn remember(&mut self, key: &[u8], number: u64) -> Result<(), Error> {
        let end_us = clock::now_us() + REMEMBERED_US;
        self.put_registry_until(end_us, key, &[end_us, number].map(u64::to_be_bytes).concat())
    }
}
