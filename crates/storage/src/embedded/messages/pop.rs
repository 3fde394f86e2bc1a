//! Pops messages, and restores popped messages that were not delivered.

use redb::ReadableTable;

use crate::embedded::engine::clock;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::show;
use crate::entry::Entry;
use crate::key::rank_of;
use crate::{Error, Popped};
use sukkal_domain::{ClaimId, QueueId, Taken};

/// How long a restored message is remembered, in microseconds, so that a repeated restoration does
/// nothing. This is longer than callers retry after an unknown outcome.
const RESTORATION_KEPT_US: u64 = 600 * 1_000_000;

pub(crate) async fn pop_messages(
    store: &EmbeddedStore,
    queue: &QueueId,
    pop: ClaimId,
    limit: usize,
) -> Result<Taken<Vec<Popped>>, Error> {
    let queue_id = queue.clone();
    store
        .take_messages(queue, move |transaction, row, now_us| {
            if transaction.state(row.number)?.is_paused {
                return Ok(Taken::Paused);
            }
            let available = transaction.next_to_deliver(&queue_id, row, limit, &[], now_us)?;
            let mut popped = Vec::with_capacity(available.len());
            for found in available {
                transaction.remove(row.number, &found.located)?;
                transaction.processed.deleted += 1;
                let message = show(&queue_id, &found.located, &found.record, now_us)?;
                let (pickup_delay, entry) =
                    (found.pickup_delay(&message, now_us), found.located.entry.encode(false).into());
                let (record, shard) = (found.record, found.located.shard);
                let epoch = row.number;
                popped.push(Popped { message, pickup_delay, is_final: true, record, entry, shard, epoch, pop });
            }
            Ok(if popped.is_empty() { Taken::Nothing } else { Taken::Messages(popped) })
        })
        .await
}

pub(crate) async fn restore_messages(store: &EmbeddedStore, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
    let popped = popped.to_vec();
    store
        .write_up_to_date(queue, (), move |transaction, row, _now_us| {
            // The others belong to an earlier queue of that name, or were popped before a purge.
            for one in popped.iter().filter(|one| one.epoch == row.number) {
                let entry = Entry::decode(&one.entry)?;
                let restored = keys::restored(row.number, *one.pop.as_bytes(), &entry.key);
                if transaction.view.registry.get(&*restored)?.is_some() {
                    continue;
                }
                let end_us = clock::now_us() + RESTORATION_KEPT_US;
                transaction.put_registry_until(end_us, &restored, &end_us.to_be_bytes())?;
                let shard = transaction.shard_at(row, rank_of(&entry.key), one.shard)?;
                transaction.add(row.number, &Located { entry, set: Part::Ready, shard }, &one.record)?;
                transaction.notify_older(row.number, &entry.key);
            }
            Ok(())
        })
        .await
}
