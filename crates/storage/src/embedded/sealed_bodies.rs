//! Lists and replaces sealed bodies in the embedded store.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;
use redb::ReadableTable;

use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::moved_messages::record_at;
use crate::sealed_bodies::{SealedBodies, SealedPage, SealedPart, SealedPosition, SealedReplacement, StoredBody};
use crate::{Error, REPLY_BYTES_MAX};
use sukkal_domain::QueueId;

/// Number of values in one step.
const LISTED_PER_STEP: usize = 100;

#[async_trait]
impl SealedBodies for EmbeddedStore {
    async fn list_sealed(&self, queue: &QueueId, after: Option<&SealedPosition>) -> Result<SealedPage, Error> {
        let (queue_id, after) = (queue.clone(), after.cloned());
        self.read(move |view| {
            let Some(row) = view.row(&queue_id)? else {
                return Ok(SealedPage { bodies: Vec::new(), next: None });
            };
            let (part, place) = match &after {
                None => (SealedPart::Messages, Bytes::new()),
                Some(position) => (position.part, position.place.clone()),
            };
            let subscriptions = view.stored_state(row.number)?.subscriptions;
            let (bodies, place) = match part {
                SealedPart::Messages => view.sealed_after(row.number, Part::Message, &place, StoredBody::in_message)?,
                SealedPart::Retries if subscriptions == 0 => (Vec::new(), None),
                SealedPart::Retries => view.sealed_after(subscriptions, Part::Retry, &place, StoredBody::in_retry)?,
                SealedPart::Outbox => sealed_after(&view.registry, &keys::outbox_prefix(&queue_id), &place, in_outbox)?,
            };
            let next = match (part, place) {
                (part, Some(place)) => Some(SealedPosition { part, place }),
                (SealedPart::Messages, None) => Some(SealedPosition { part: SealedPart::Retries, place: Bytes::new() }),
                (SealedPart::Retries, None) => Some(SealedPosition { part: SealedPart::Outbox, place: Bytes::new() }),
                (SealedPart::Outbox, None) => None,
            };
            Ok(SealedPage { bodies, next })
        })
        .await
    }

    async fn replace_sealed(&self, queue: &QueueId, replacements: &[SealedReplacement]) -> Result<u64, Error> {
        let bytes = replacements.iter().map(|replacement| replacement.value.len()).sum();
        let (queue_id, replacements) = (queue.clone(), replacements.to_vec());
        self.write(bytes, move |store| store.replace_sealed(&queue_id, &replacements).map(Step::Done)).await
    }
}

impl<T: Table> View<T> {
    /// Returns the sealed bodies of some rows of a part: see the function of the same name.
    fn sealed_after(&self, number: u64, part: Part, place: &[u8], find: Find) -> Result<SealedRows, Error> {
        sealed_after(&self.contents, &keys::part_prefix(number, part), place, find)
    }
}

/// Sealed bodies, and the last place that was visited, or `None` at the end.
type SealedRows = (Vec<StoredBody>, Option<Bytes>);
/// Finds the sealed body in a value with a name.
type Find = fn(Bytes, Bytes) -> Option<StoredBody>;

/// Returns the sealed bodies of some of the rows whose keys begin with `all`, after a place, which
/// is the rest of a key.
fn sealed_after(table: &impl Table, all: &[u8], place: &[u8], find: Find) -> Result<SealedRows, Error> {
    let (after, end) = ([all, place].concat(), keys::prefix_end(all));
    let range = (Bound::Excluded(&*after), Bound::Excluded(&*end));
    let (mut bodies, mut bytes, mut last) = (Vec::new(), 0, None);
    for (visited, entry) in table.range::<&[u8]>(range)?.enumerate() {
        let (key, value) = entry?;
        bytes += value.value().len();
        if visited == LISTED_PER_STEP || bytes > REPLY_BYTES_MAX && visited > 0 {
            return Ok((bodies, last));
        }
        let name = Bytes::copy_from_slice(&key.value()[all.len()..]);
        last = Some(name.clone());
        bodies.extend(find(name, Bytes::copy_from_slice(value.value())));
    }
    Ok((bodies, None))
}

/// Finds the sealed body of a message in an outbox.
fn in_outbox(name: Bytes, value: Bytes) -> Option<StoredBody> {
    let at = record_at(&value).ok()?;
    StoredBody::find(SealedPart::Outbox, name, value, at)
}

impl WriteTransaction<'_> {
    fn replace_sealed(&mut self, queue: &QueueId, replacements: &[SealedReplacement]) -> Result<u64, Error> {
        let Some(row) = self.row(queue)? else {
            return Ok(0);
        };
        let subscriptions = self.state(row.number)?.subscriptions;
        let mut replaced = 0;
        for SealedReplacement { stored, value } in replacements {
            let (table, key) = match stored.part {
                SealedPart::Messages => (&self.view.contents, keys::content(row.number, Part::Message, &stored.name)),
                SealedPart::Retries => (&self.view.contents, keys::content(subscriptions, Part::Retry, &stored.name)),
                SealedPart::Outbox => (&self.view.registry, [&*keys::outbox_prefix(queue), &stored.name].concat()),
            };
            if table.get(&*key)?.is_none_or(|current| current.value() != &*stored.value) {
                continue;
            }
            match stored.part {
                SealedPart::Outbox => self.put_registry(&key, value)?,
                SealedPart::Messages | SealedPart::Retries => self.put(&key, value)?,
            }
            replaced += 1;
        }
        Ok(replaced)
    }
}
