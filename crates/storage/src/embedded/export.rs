//! Sends everything in the store, for a migration: see `storage/migration`.
//!
//! Everything is read in one transaction. Due changes are not applied before, because the target
//! applies them as well. What only the process that had the store open knows is left out: leases of
//! its work end, and the pops that it could still restore are forgotten.

use async_trait::async_trait;
use bytes::{Buf, Bytes};
use redb::ReadableTable;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::claim::ClaimRow;
use crate::embedded::rows::keys::{self, MIGRATION_ID, OUTBOX, Part, QUEUES, kept_until};
use crate::embedded::rows::lease::Lease;
use crate::embedded::rows::located::{Located, SETS};
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::{Records, View};
use crate::embedded::transaction::writer::Step;
use crate::migration::{Chunk, Fairness, Item, MessageSet, MigrationSource, QueueParts, Totals};
use crate::task_lease::TaskLease;
use crate::task_record::TaskRecord;
use crate::{COPIED_TABLES, Error, REPLY_BYTES_MAX, Row};
use sukkal_domain::{ClaimId, QueueId, SubscriptionId, TaskId, TaskState};

/// Maximum number of items in a chunk.
const ITEMS_PER_CHUNK: usize = 500;
/// Number of bytes of records after which a chunk ends.
const BYTES_PER_CHUNK: usize = REPLY_BYTES_MAX / 2;
const TIME_BYTES: usize = 8;

#[async_trait]
impl MigrationSource for EmbeddedStore {
    async fn migration_id(&self) -> Result<Uuid, Error> {
        let new = Uuid::new_v4();
        self.write(0, move |store| {
            if let Some(id) = store.view.registry.get(MIGRATION_ID)? {
                let id = id.value().try_into().map_err(|_| damaged("the id of the migration"))?;
                return Ok(Step::Done(Uuid::from_bytes(id)));
            }
            store.put_registry(MIGRATION_ID, new.as_bytes())?;
            Ok(Step::Done(new))
        })
        .await
    }

    async fn has_pools(&self) -> Result<bool, Error> {
        self.read_on_blocking_thread(|view| {
            for (_, row) in view.all_with(&[QUEUES])? {
                if QueueRow::decode(&row)?.0.is_located() {
                    return Ok(true);
                }
            }
            Ok(!view.all_with(&[OUTBOX])?.is_empty())
        })
        .await
    }

    async fn export(&self, chunks: mpsc::Sender<Chunk>) -> Result<(), Error> {
        self.read_on_blocking_thread(move |view| view.export(&chunks)).await
    }
}

/// Collects the items of one queue, or those that belong to no queue, and sends them in chunks.
struct Collector<'a> {
    chunks: &'a mpsc::Sender<Chunk>,
    queue: Option<QueueId>,
    items: Vec<Item>,
    bytes: usize,
}

impl<'a> Collector<'a> {
    fn new(chunks: &'a mpsc::Sender<Chunk>, queue: Option<QueueId>) -> Self {
        Self { chunks, queue, items: Vec::new(), bytes: 0 }
    }

    /// Adds an item with a record of this length.
    fn add(&mut self, bytes: usize, item: Item) -> Result<(), Error> {
        self.items.push(item);
        self.bytes += bytes;
        if self.items.len() < ITEMS_PER_CHUNK && self.bytes < BYTES_PER_CHUNK {
            return Ok(());
        }
        self.send(false)
    }

    fn finish(mut self) -> Result<(), Error> {
        self.send(true)
    }

    fn send(&mut self, is_last: bool) -> Result<(), Error> {
        let chunk = Chunk { queue: self.queue.clone(), items: std::mem::take(&mut self.items), is_last };
        self.bytes = 0;
        self.chunks.blocking_send(chunk).map_err(|_| Error::Unavailable("the migration was stopped".to_owned()))
    }
}

impl<T: Table> View<T> {
    fn export(&self, chunks: &mpsc::Sender<Chunk>) -> Result<(), Error> {
        self.for_each_with(&[QUEUES], |key, row| {
            let queue = keys::decode_queue(key).ok_or_else(|| damaged("a queue's name"))?;
            let mut collector = Collector::new(chunks, Some(queue));
            self.export_queue(row, &mut collector)?;
            collector.finish()
        })?;
        self.for_each_with(&[keys::TOMBSTONES], |key, tombstone| {
            let queue = keys::decode_tombstone(key).ok_or_else(|| damaged("a tombstone"))?;
            let mut numbers = tombstone;
            let (Ok(end_us), Ok(last)) = (numbers.try_get_u64(), numbers.try_get_u64()) else {
                return Err(damaged("a tombstone"));
            };
            let mut collector = Collector::new(chunks, Some(queue));
            collector.add(0, Item::Tombstone { last, end_us })?;
            collector.finish()
        })?;
        let mut collector = Collector::new(chunks, None);
        for table in COPIED_TABLES {
            self.for_each_with(&table.prefixes[..1], |key, value| {
                let row = Row { key: Bytes::copy_from_slice(&key[1..]), value: Bytes::copy_from_slice(value) };
                collector.add(value.len(), Item::Row { table, row })
            })?;
        }
        collector.finish()
    }

    fn export_queue(&self, row: &[u8], collector: &mut Collector<'_>) -> Result<(), Error> {
        let (row, metadata) = QueueRow::decode(row)?;
        let (number, state) = (row.number, self.stored_state(row.number)?);
        let queue = self.queue_parts(&row, &state, Bytes::copy_from_slice(metadata))?;
        collector.add(metadata.len(), Item::Queue(Box::new(queue)))?;
        for set in SETS {
            let mut records = Records::new(self, number);
            for located in self.entries(number, set, 0)? {
                let Located { entry, shard, .. } = located?;
                let record = Bytes::copy_from_slice(records.get(&entry.key)?.value());
                collector.add(record.len(), Item::Message { entry, set: message_set(set), shard, record })?;
            }
        }
        for claim in self.all_of(number, Part::Claim)? {
            let (id, row) = claim?;
            let id = ClaimId::from_bytes(id.try_into().map_err(|_| damaged("the id of a claim"))?);
            let ClaimRow { ttl_s, since_us, end_us, fence, client, keys, .. } = ClaimRow::decode(&row)?;
            let held = self.held_messages(number, Lease::Claim(id), &keys)?;
            let entries = held.iter().map(|located| located.entry).collect();
            collector.add(row.len(), Item::Claim { id, ttl_s, since_us, end_us, fence, client, entries })?;
        }
        for task in self.all_of(number, Part::Task)? {
            let (id, record) = task?;
            let lease = match TaskRecord::decode(&record)?.state {
                TaskState::Running => Some(self.ended_task_lease(number, &id)?),
                _ => None,
            };
            let id = TaskId::from_bytes(id.try_into().map_err(|_| damaged("the id of a task"))?);
            collector.add(record.len(), Item::Task { id, record, lease })?;
        }
        self.for_each_with(&keys::outcomes_prefix(number), |key, value| {
            let name = Bytes::copy_from_slice(key.get(1 + TIME_BYTES..).unwrap_or_default());
            let end_us = kept_until(value).ok_or_else(|| damaged("the outcome of a post"))?;
            let digest_and_keys = Bytes::copy_from_slice(&value[TIME_BYTES..]);
            collector.add(value.len(), Item::Outcome { name, end_us, digest_and_keys })
        })?;
        if state.subscriptions > 0 {
            self.export_subscriptions(state.subscriptions, collector)?;
        }
        Ok(())
    }

    fn export_subscriptions(&self, number: u64, collector: &mut Collector<'_>) -> Result<(), Error> {
        let read_id = |id: Vec<u8>| {
            id.try_into().map(SubscriptionId::from_bytes).map_err(|_| damaged("the id of a subscription"))
        };
        for subscription in self.all_of(number, Part::Subscription)? {
            let (id, record) = subscription?;
            collector.add(record.len(), Item::Subscription { id: read_id(id)?, record })?;
        }
        for progress in self.all_of(number, Part::Progress)? {
            let (id, record) = progress?;
            collector.add(record.len(), Item::Progress { id: read_id(id)?, record })?;
        }
        for attempt in self.all_of(number, Part::Attempt)? {
            let (name, record) = attempt?;
            collector.add(record.len(), Item::Attempt { name: name.into(), record })?;
        }
        for retry in self.all_of(number, Part::Retry)? {
            let (name, record) = retry?;
            collector.add(record.len(), Item::Retry { name: name.into(), record })?;
        }
        Ok(())
    }

    fn queue_parts(&self, row: &QueueRow, state: &QueueState, metadata: Bytes) -> Result<QueueParts, Error> {
        let (tenants_end_us, counters) = self.tenants(row.number)?.end_and_counters();
        let deliveries = match state.subscriptions {
            0 => None,
            _ => Some(self.delivery_row(state)?),
        };
        Ok(QueueParts {
            revision: row.revision.0,
            metadata,
            last: state.last,
            fence: state.fence,
            is_paused: state.is_paused,
            totals: Totals {
                posted: state.posted,
                claimed: state.claimed,
                expired: state.expired,
                dead_lettered: state.dead_lettered,
            },
            bytes: state.bytes,
            logical_time: (state.delayed > 0).then_some((state.offset, state.logical)),
            fairness: state.is_fair(&row.policy).then(|| Fairness {
                sharding: row.policy.sharding,
                boundary: state.boundary,
                // The state has the position that is next.
                served: state.turn.checked_sub(1),
                preferred_in_a_row: state.preferred_in_a_row,
            }),
            tenants: counters.into_iter().map(|(count, tenant)| (tenant, count)).collect(),
            tenants_end_us,
            subscription_count: state.subscription_count,
            deliveries: deliveries.map(|deliveries| (deliveries.version, deliveries.lease.ended())),
        })
    }

    /// Returns the lease of a task after the process that had it has ended.
    fn ended_task_lease(&self, number: u64, id: &[u8]) -> Result<TaskLease, Error> {
        let lease = self.contents.get(&*keys::content(number, Part::TaskLease, id))?;
        let lease = lease.and_then(|lease| TaskLease::decode(lease.value()));
        lease.map(TaskLease::ended).ok_or_else(|| damaged("the lease of a task"))
    }

    /// Calls `visit` with the key and the value of each row of the registry whose key begins with
    /// this prefix.
    fn for_each_with(
        &self,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        for entry in self.registry.range::<&[u8]>(prefix..&*keys::prefix_end(prefix))? {
            let (key, value) = entry?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }
}

fn message_set(set: Part) -> MessageSet {
    match set {
        Part::Delayed => MessageSet::Delayed,
        Part::InFlight => MessageSet::InFlight,
        _ => MessageSet::Ready,
    }
}
