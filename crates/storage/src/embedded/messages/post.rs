//! Posts the messages of a request, in order and after every visible message, or none of them. A
//! post does not apply due changes first, because it only adds messages. In a fair queue it does,
//! because the messages in each shard decide the assignment of new ones.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use redb::ReadableTable;

use crate::embedded::engine::clock::{self, end_s};
use crate::embedded::messages::ranks::NewRecord;
use crate::embedded::rows::keys::{self, Key, kept_until};
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::entry::SizeClass;
use crate::key::{KEY_BYTES, id_of, nonce_bytes};
use crate::{Error, Post, PostOutcome, record};
use sukkal_domain::client::Poster;
use sukkal_domain::idempotency::DIGEST_BYTES;
use sukkal_domain::message::Nonce;
use sukkal_domain::{Durability, QueueId, QueueLimits, Quota, Revision, ShardAssignment};

/// A request in the form that the writer thread needs.
struct Request {
    queue: QueueId,
    last_known_revision: Revision,
    poster: Poster,
    messages: Vec<NewMessage>,
    limits: QueueLimits,
    idempotency: Option<Idempotency>,
}

struct NewMessage {
    nonce: [u8; 5],
    delay_s: u32,
    ttl_s: u32,
    size: SizeClass,
    record: Bytes,
    assignment: Option<Arc<ShardAssignment>>,
}

struct Idempotency {
    name: [u8; 16],
    digest: [u8; DIGEST_BYTES],
    kept_s: u32,
}

/// Number of bytes before the digest in a stored outcome: the time until which it is kept.
const TIME_BYTES: usize = 8;

pub(crate) async fn post_messages(
    store: &EmbeddedStore,
    queue: &QueueId,
    post: &Post<'_>,
) -> Result<PostOutcome, Error> {
    if let Some((level, _wait_max)) = post.durability {
        check_durability(store, level)?;
    }
    let request = Request::new(queue, post);
    let bytes = request.messages.iter().map(|message| message.record.len()).sum();
    store.write(bytes, move |store| store.post_request(&request)).await
}

/// Refuses a level that the store does not reach with every write.
pub(crate) fn check_durability(store: &EmbeddedStore, level: Durability) -> Result<(), Error> {
    let refusal = if level.replicas() > 0 {
        "This store cannot confirm \"Durability: replicas=N\", because an embedded store has no replicas."
    } else if !store.parts.is_synced {
        "This store cannot confirm \"Durability: fsync\": it needs a file, and the option embedded.fsync must be group."
    } else {
        return Ok(());
    };
    Err(Error::Unsupported(refusal.to_owned()))
}

impl Request {
    fn new(queue: &QueueId, post: &Post<'_>) -> Self {
        let messages = post.messages.iter().map(|message| {
            let record = record::new(message, post.trace, post.origin);
            NewMessage {
                nonce: nonce_bytes(Nonce::random()),
                delay_s: message.delay_s,
                ttl_s: message.ttl_s,
                size: SizeClass::of(record.len()),
                record,
                assignment: message.assignment.clone(),
            }
        });
        let idempotency = post.idempotency.map(|(idempotency, kept_s)| Idempotency {
            name: idempotency.name(post.client),
            digest: idempotency.digest(post.client),
            kept_s,
        });
        let poster = post.client.poster();
        Self {
            queue: queue.clone(),
            last_known_revision: post.last_known_revision,
            poster,
            messages: messages.collect(),
            limits: post.limits,
            idempotency,
        }
    }
}

impl WriteTransaction<'_> {
    fn post_request(&mut self, request: &Request) -> Result<Step<PostOutcome>, Error> {
        let row = self.row(&request.queue)?;
        if let (Some(idempotency), Some(row)) = (&request.idempotency, &row)
            && let Some(kept) = self.stored_outcome(&request.queue, row.number, idempotency)?
        {
            return Ok(Step::Done(kept));
        }
        let Some(row) = row.filter(|row| row.revision == request.last_known_revision) else {
            return Ok(Step::Done(PostOutcome::Stale(self.view.queue(&request.queue)?)));
        };
        let now_us = self.now_us(&request.queue);
        if self.is_fair(&row)? && self.apply_due_changes(&row, now_us)? {
            return Ok(Step::Again);
        }
        if self.exceeds(&row, request)?.is_some() {
            if self.apply_due_changes(&row, now_us)? {
                return Ok(Step::Again);
            }
            if let Some(quota) = self.exceeds(&row, request)? {
                return Ok(Step::Done(PostOutcome::Full(quota)));
            }
        }
        if self.is_fair(&row)? {
            let assignments = request.messages.iter().filter_map(|message| message.assignment.as_ref());
            self.count_tenants(row.number, now_us, assignments.map(|assignment| &assignment.tenant))?;
        }
        let records = request.messages.iter().map(|message| NewRecord {
            nonce: message.nonce,
            delay_s: message.delay_s,
            record: message.record.clone(),
            end_s: end_s(now_us, message.ttl_s),
            poster: request.poster,
            size: message.size,
            delivery: None,
            assignment: message.assignment.clone(),
        });
        let keys = self.post(&row, now_us, &records.collect::<Vec<_>>())?;
        self.processed.posted += keys.len() as u64;
        if let Some(idempotency) = &request.idempotency {
            self.store_outcome(row.number, idempotency, &keys)?;
        }
        posted(&request.queue, &keys).map(Step::Done)
    }

    /// Returns the quota that the queue would exceed with the messages of a request.
    fn exceeds(&mut self, row: &QueueRow, request: &Request) -> Result<Option<Quota>, Error> {
        let (state, limits) = (self.state(row.number)?, &request.limits);
        let new_bytes: u64 = request.messages.iter().map(|message| message.size.bytes_max() as u64).sum();
        let messages = state.total + request.messages.len() as u64;
        Ok(if limits.messages.is_some_and(|max| messages > max) {
            Some(Quota::MessagesPerQueue)
        } else if let (Some(max), Some(bytes)) = (limits.bytes, state.bytes)
            && bytes + new_bytes > max
        {
            Some(Quota::BytesPerQueue)
        } else {
            None
        })
    }

    /// Returns the outcome that is stored for a request's idempotency key. It is stored under the
    /// number of the queue's contents, so that it ends with them.
    fn stored_outcome(
        &self,
        queue: &QueueId,
        number: u64,
        idempotency: &Idempotency,
    ) -> Result<Option<PostOutcome>, Error> {
        let Some(kept) = self.view.registry.get(&*keys::outcome(number, idempotency.name))? else {
            return Ok(None);
        };
        let kept = kept.value();
        if kept_until(kept) <= Some(clock::now_us()) {
            return Ok(None);
        }
        let kept = kept.get(TIME_BYTES..).unwrap_or_default();
        // The keys follow the digest, which is longer than one key and shorter than two.
        let Some((digest, keys)) = kept.split_at_checked(KEY_BYTES + kept.len() % KEY_BYTES) else {
            return Err(Error::Corrupt("the outcome of a post is too short".to_owned()));
        };
        let is_comparable = digest.len() == DIGEST_BYTES && digest[0] == idempotency.digest[0];
        if is_comparable && digest != idempotency.digest {
            return Ok(Some(PostOutcome::KeyReused));
        }
        posted(queue, keys.as_chunks::<KEY_BYTES>().0).map(Some)
    }

    fn store_outcome(&mut self, number: u64, idempotency: &Idempotency, keys: &[Key]) -> Result<(), Error> {
        let end_us = clock::now_us() + u64::from(idempotency.kept_s) * 1_000_000;
        let mut value = Vec::with_capacity(TIME_BYTES + DIGEST_BYTES + KEY_BYTES * keys.len());
        value.put_u64(end_us);
        value.extend_from_slice(&idempotency.digest);
        value.extend(keys.iter().flatten());
        self.put_registry_until(end_us, &keys::outcome(number, idempotency.name), &value)
    }
}

fn posted(queue: &QueueId, keys: &[Key]) -> Result<PostOutcome, Error> {
    keys.iter().map(|key| id_of(queue, key)).collect::<Result<_, _>>().map(PostOutcome::Posted)
}
