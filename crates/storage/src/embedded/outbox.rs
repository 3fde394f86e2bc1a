//! The outbox of a queue: messages on their way to a queue in another store. Messages that move to
//! a queue in the same file move in one transaction and need no outbox. `storage/outbox.rs`
//! forwards the others.
//!
//! The outbox belongs to the registry, because it outlives its queue. The numbers of its messages
//! are fences of the queue, so they never repeat.

use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, OUTBOX, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::entry::{Delivery, Entry};
use crate::key::rank_of;
use crate::moved_messages::{Destinations, MovedBatch, MovedMessage, OutgoingMessage, Target};
use crate::outbox::{Forwarders, LISTED_PER_STEP, Outboxes};
use crate::{Error, REPLY_BYTES_MAX};
use sukkal_domain::{QueueId, TaskState};

#[async_trait]
impl Outboxes for EmbeddedStore {
    fn destinations(&self) -> Result<Arc<dyn Destinations>, Error> {
        self.parts.other_stores.destinations(self)
    }

    fn forwarders(&self) -> &Forwarders {
        &self.parts.forwarders
    }

    async fn list_outbox(&self, source: &QueueId) -> Result<Vec<OutgoingMessage>, Error> {
        let source = source.clone();
        self.read(move |view| {
            let (mut outgoing, mut bytes) = (Vec::new(), 0);
            for row in view.outbox(&source)?.take(LISTED_PER_STEP) {
                let (_, _, value) = row?;
                bytes += value.len();
                if bytes > REPLY_BYTES_MAX && !outgoing.is_empty() {
                    break;
                }
                outgoing.push(OutgoingMessage::decode(&value)?);
            }
            Ok(outgoing)
        })
        .await
    }

    async fn drop_delivered(&self, source: &QueueId, delivered: &[OutgoingMessage]) -> Result<u64, Error> {
        let last = delivered.last().map_or(0, |outgoing| outgoing.message.number);
        let source = source.clone();
        self.write(0, move |store| {
            store.take_outbox(&source, last)?;
            Ok(Step::Done(u64::from(store.view.has_outbox(&source)?)))
        })
        .await
    }

    async fn return_redriven(&self, batch: &MovedBatch) -> Result<(), Error> {
        let (source, (first, last)) = (batch.source.clone(), batch.numbers());
        self.write(0, move |store| store.return_redriven(&source, first, last).map(Step::Done)).await
    }
}

impl<T: Table> View<T> {
    /// Returns the messages in the outbox of a queue, in the order of their numbers: the number of
    /// each, the contents number of the queue that it has left, and its value.
    pub(super) fn outbox(
        &self,
        source: &QueueId,
    ) -> Result<impl Iterator<Item = Result<(u64, u64, Bytes), Error>> + '_, Error> {
        let prefix = keys::outbox_prefix(source);
        let rows = self.registry.range::<&[u8]>(&*prefix..&*keys::prefix_end(&prefix))?;
        Ok(rows.map(|row| {
            let (key, value) = row?;
            let (_, number, contents) = keys::decode_outbox(key.value()).ok_or_else(|| damaged("an outbox"))?;
            Ok((number, contents, Bytes::copy_from_slice(value.value())))
        }))
    }

    /// Returns the last number in the outbox of a queue; 0 if it is empty.
    fn last_in_outbox(&self, source: &QueueId) -> Result<u64, Error> {
        let prefix = keys::outbox_prefix(source);
        let last = self.registry.range::<&[u8]>(&*prefix..&*keys::prefix_end(&prefix))?.next_back().transpose()?;
        Ok(last.and_then(|(key, _)| keys::decode_outbox(key.value())).map_or(0, |(_, number, _)| number))
    }

    /// Returns whether messages are in the outbox of a queue.
    pub(super) fn has_outbox(&self, source: &QueueId) -> Result<bool, Error> {
        Ok(self.outbox(source)?.next().is_some())
    }

    /// Returns the queues, deleted ones included, that have an outbox, from the one after `after`
    /// to `last`; without them from the first one, or to the last one.
    pub(super) fn queues_with_outbox(
        &self,
        after: Option<&QueueId>,
        last: Option<&QueueId>,
    ) -> Result<Vec<QueueId>, Error> {
        let after_outbox = |queue: &QueueId| keys::prefix_end(&keys::outbox_prefix(queue));
        let mut from = after.map_or_else(|| vec![OUTBOX], after_outbox);
        let to = last.map_or_else(|| keys::prefix_end(&[OUTBOX]), after_outbox);
        let mut queues = Vec::new();
        while let Some(row) = self.registry.range::<&[u8]>((Bound::Included(&*from), Bound::Excluded(&*to)))?.next() {
            let (queue, _, _) = keys::decode_outbox(row?.0.value()).ok_or_else(|| damaged("an outbox"))?;
            from = after_outbox(&queue);
            queues.push(queue);
            if from >= to {
                break;
            }
        }
        Ok(queues)
    }
}

impl WriteTransaction<'_> {
    /// Puts messages that have left the queue with these contents into its outbox.
    pub(super) fn put_into_outbox(&mut self, contents: u64, batch: MovedBatch, now_us: u64) -> Result<(), Error> {
        let MovedBatch { source, target, epoch, messages } = batch;
        let target = Target { name: target.name().clone(), epoch };
        // Messages of a deleted queue of the same name may be left.
        let last = self.view.last_in_outbox(&source)?;
        let mut number = last.max(self.state(contents)?.fence).max(now_us.saturating_sub(1));
        for message in messages {
            number += 1;
            let message = MovedMessage { number, ..message };
            let outgoing = OutgoingMessage { message, target: target.clone() };
            self.put_registry(&keys::outbox(&source, number, contents), &outgoing.encode())?;
        }
        self.change_state(contents, |state| state.fence = number)?;
        self.filled_outboxes.insert(contents);
        Ok(())
    }

    /// Removes the messages up to a number from the outbox of a queue, and returns them.
    fn take_outbox(&mut self, source: &QueueId, last: u64) -> Result<Vec<(u64, u64, Bytes)>, Error> {
        let is_early = |row: &Result<(u64, _, _), Error>| row.as_ref().map_or(true, |(number, _, _)| *number <= last);
        let rows: Vec<_> = self.view.outbox(source)?.take_while(is_early).collect::<Result<_, _>>()?;
        for (number, contents, _) in &rows {
            self.remove_registry(&keys::outbox(source, *number, *contents))?;
        }
        Ok(rows)
    }

    /// Returns messages of a redrive from the outbox to their old positions. They count as posted
    /// again. If the queue was deleted or purged, they are dropped. `scripts/redrive_return.lua`
    /// has the same rules.
    fn return_redriven(&mut self, source: &QueueId, first: u64, last: u64) -> Result<(), Error> {
        let rows = self.take_outbox(source, last)?;
        let Some(row) = self.row(source)? else {
            return Ok(());
        };
        let mut returned = Vec::new();
        // Messages with lower numbers have arrived.
        for (_, _, value) in rows.iter().filter(|(number, contents, _)| *number >= first && *contents == row.number) {
            let MovedMessage { entry, delivery, record, .. } = OutgoingMessage::decode(value)?.message;
            let entry = Entry { delivery: Some(Delivery { ttl_s: 0, ..delivery }), ..entry };
            let shard = self.shard_at(&row, rank_of(&entry.key), None)?;
            self.add(row.number, &Located { entry, set: Part::Ready, shard }, &record)?;
            self.notify_older(row.number, &entry.key);
            returned.push(entry.key);
        }
        let running = self.view.tasks(row.number)?.into_iter().find(|(_, task)| task.state == TaskState::Running);
        if let (Some(oldest), Some((id, mut task))) = (returned.first(), running) {
            task.unmove(returned.len() as u64, rank_of(oldest));
            self.put_task(row.number, id, &task)?;
        }
        Ok(())
    }
}
