//! Posts: of each request all messages, in order, behind every other, or none. Nothing is settled first, because a post
//! only adds; but in a fair queue, where it matters to a post what is there.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use redb::ReadableTable;

use super::EmbeddedStore;
use super::clock::{self, end_s};
use super::keys::{self, Key};
use super::posting::NewRecord;
use super::writer::Step;
use super::writing::Writing;
use crate::domain::client::Poster;
use crate::domain::message::Nonce;
use crate::domain::{Lot, QueueId, Revision};
use crate::storage::entry::SizeClass;
use crate::storage::key::{KEY_BYTES, id_of, nonce_bytes};
use crate::storage::{Error, Post, Posting, record};

/// A request, ready for the writer.
struct Request {
    queue: QueueId,
    seen: Revision,
    poster: Poster,
    messages: Vec<NewMessage>,
    once: Option<Once>,
}

struct NewMessage {
    nonce: [u8; 5],
    delay_s: u32,
    ttl_s: u32,
    size: SizeClass,
    record: Bytes,
    lot: Option<Arc<Lot>>,
}

struct Once {
    name: [u8; 16],
    digest: [u8; 16],
    kept_s: u32,
}

/// The digest that a kept answer begins with stands behind the time until which it is kept.
const DIGEST: std::ops::Range<usize> = 8..24;

impl EmbeddedStore {
    pub(super) async fn post(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        let request = Request::new(queue, post);
        let bytes = request.messages.iter().map(|message| message.record.len()).sum();
        self.write(bytes, move |store| store.post_request(&request)).await
    }
}

impl Request {
    fn new(queue: &QueueId, post: &Post<'_>) -> Self {
        let messages = post.messages.iter().map(|message| {
            let record = record::new(message);
            NewMessage {
                nonce: nonce_bytes(Nonce::random()),
                delay_s: message.delay_s,
                ttl_s: message.ttl_s,
                size: SizeClass::of(record.len()),
                record,
                lot: message.lot.clone(),
            }
        });
        let once = post.once.map(|(once, kept_s)| Once {
            name: once.name(post.client),
            digest: once.digest(post.client),
            kept_s,
        });
        let poster = post.client.poster();
        Self { queue: queue.clone(), seen: post.seen, poster, messages: messages.collect(), once }
    }
}

impl Writing<'_> {
    fn post_request(&mut self, request: &Request) -> Result<Step<Posting>, Error> {
        let row = self.row(&request.queue)?;
        if let (Some(once), Some(row)) = (&request.once, &row)
            && let Some(kept) = self.kept_answer(&request.queue, row.number, once)?
        {
            return Ok(Step::Done(kept));
        }
        let Some(row) = row.filter(|row| row.revision == request.seen) else {
            return Ok(Step::Done(Posting::Stale(self.view.queue(&request.queue)?)));
        };
        let now_us = self.now_us(&request.queue);
        if self.is_fair(&row)? && self.settle(&row, now_us)? {
            return Ok(Step::Again);
        }
        if self.is_fair(&row)? {
            let lots = request.messages.iter().filter_map(|message| message.lot.as_ref());
            self.count_tenants(row.number, now_us, lots.map(|lot| &lot.tenant))?;
        }
        let records = request.messages.iter().map(|message| NewRecord {
            nonce: message.nonce,
            delay_s: message.delay_s,
            record: message.record.clone(),
            end_s: end_s(now_us, message.ttl_s),
            poster: request.poster,
            size: message.size,
            delivery: None,
            lot: message.lot.clone(),
        });
        let keys = self.post(&row, now_us, &records.collect::<Vec<_>>())?;
        if let Some(once) = &request.once {
            self.keep_answer(row.number, once, &keys)?;
        }
        posted(&request.queue, &keys).map(Step::Done)
    }

    /// The answer that is kept for a request's idempotency key. It is kept under the number of the queue's contents, so
    /// that it ends with them.
    fn kept_answer(&self, queue: &QueueId, number: u64, once: &Once) -> Result<Option<Posting>, Error> {
        let Some(kept) = self.view.registry.get(&*keys::answer(number, once.name))? else {
            return Ok(None);
        };
        let kept = kept.value();
        if super::upkeep::kept_until(kept) <= Some(clock::now_us()) {
            return Ok(None);
        }
        if kept.get(DIGEST) != Some(&once.digest) {
            return Ok(Some(Posting::OtherContent));
        }
        posted(queue, kept[DIGEST.end..].as_chunks::<KEY_BYTES>().0).map(Some)
    }

    fn keep_answer(&mut self, number: u64, once: &Once, keys: &[Key]) -> Result<(), Error> {
        let end_us = clock::now_us() + u64::from(once.kept_s) * 1_000_000;
        let mut answer = Vec::with_capacity(DIGEST.end + KEY_BYTES * keys.len());
        answer.put_u64(end_us);
        answer.extend_from_slice(&once.digest);
        answer.extend(keys.iter().flatten());
        self.keep_until(end_us, &keys::answer(number, once.name), &answer)
    }
}

fn posted(queue: &QueueId, keys: &[Key]) -> Result<Posting, Error> {
    keys.iter().map(|key| id_of(queue, key)).collect::<Result<_, _>>().map(Posting::Posted)
}
