//! A request that posts, as the script reads it, and what the script says of it.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::failure::refused;
use super::keys::QueueKeys;
use super::script::MESSAGE_POST;
use super::{queues, reply, shards};
use crate::domain::message::Nonce;
use crate::domain::{Lot, QueueId, Shard};
use crate::storage::entry::{Entry, SizeClass};
use crate::storage::key::{self, KEY_BYTES, id_of, nonce_bytes};
use crate::storage::{Error, Post, Posting, record};

/// A request, ready for the script.
pub(super) struct Request {
    queue: QueueId,
    pub(super) keys: QueueKeys,
    seen: u64,
    nonces: Vec<Nonce>,
    /// Nonce, poster, size class, ttl, and where there are any the delay and the tenant of each message.
    places: Vec<u8>,
    has_delays: bool,
    /// How many shards each tenant has, these, and its name.
    pub(super) tenants: Vec<Bytes>,
    /// The record of each message.
    pub(super) records: Vec<Bytes>,
    pub(super) once: Option<Once>,
    tell: oneshot::Sender<Result<Posting, Error>>,
}

/// What the script needs to know of an idempotency key.
pub(super) struct Once {
    name: [u8; 16],
    digest: [u8; 16],
    kept_s: u32,
}

/// The tenants of a request, numbered from 1.
#[derive(Default)]
struct Tenants {
    numbers: HashMap<Arc<Lot>, u16>,
    encoded: Vec<Bytes>,
}

impl Tenants {
    fn number(&mut self, lot: &Arc<Lot>) -> u16 {
        let Self { numbers, encoded } = self;
        *numbers.entry(lot.clone()).or_insert_with(|| {
            let candidates: Vec<&Shard> = lot.candidates().collect();
            let count = u16::try_from(candidates.len()).expect("they are few");
            let shards = shards::digits_of(candidates);
            encoded.push([&count.to_be_bytes(), &shards[..], lot.tenant.as_str().as_bytes()].concat().into());
            u16::try_from(encoded.len()).expect("a request has fewer tenants")
        })
    }
}

impl Request {
    pub(super) fn new(queue: &QueueId, post: &Post<'_>, tell: oneshot::Sender<Result<Posting, Error>>) -> Self {
        let poster = post.client.poster();
        let has_delays = post.messages.iter().any(|message| message.delay_s > 0);
        let (mut places, mut records, mut tenants) = (Vec::new(), Vec::new(), Tenants::default());
        let nonces: Vec<Nonce> = post.messages.iter().map(|_| Nonce::random()).collect();
        for (message, nonce) in post.messages.iter().zip(&nonces) {
            let record = record::new(message);
            places.extend(nonce_bytes(*nonce));
            places.extend(Entry::poster_and_size(poster, SizeClass::of(record.len())));
            places.extend(message.ttl_s.to_be_bytes());
            if has_delays {
                places.extend(message.delay_s.to_be_bytes());
            }
            places.extend(message.lot.iter().flat_map(|lot| tenants.number(lot).to_be_bytes()));
            records.push(record);
        }
        let once = post.once.map(|(once, kept_s)| Once {
            name: once.name(post.client),
            digest: once.digest(post.client),
            kept_s,
        });
        Self {
            queue: queue.clone(),
            keys: QueueKeys::of(queue),
            seen: post.seen.0,
            nonces,
            places,
            has_delays,
            tenants: tenants.encoded,
            records,
            once,
            tell,
        }
    }

    /// Whether it is accepted or refused together with others like it.
    fn is_plain(&self) -> bool {
        !self.has_delays && self.tenants.is_empty() && self.once.is_none()
    }

    pub(super) fn answer(self, outcome: Result<Posting, Error>) {
        let _nobody_waits_any_more = self.tell.send(outcome);
    }
}

/// The requests of a batch, those together that are accepted or refused together.
pub(super) fn into_parts(batch: Vec<Request>) -> Vec<Vec<Request>> {
    let mut parts: Vec<Vec<Request>> = Vec::with_capacity(1);
    let mut plain: HashMap<(QueueKeys, u64), usize> = HashMap::new();
    for request in batch {
        let place = if request.is_plain() {
            *plain.entry((request.keys.clone(), request.seen)).or_insert(parts.len())
        } else {
            parts.len()
        };
        if place == parts.len() {
            parts.push(Vec::new());
        }
        parts[place].push(request);
    }
    parts
}

/// The head of a part, as the script reads it.
pub(super) fn head(part: &[Request], queue: u16) -> Bytes {
    let count = part.iter().map(|request| request.records.len()).sum::<usize>();
    let count = u32::try_from(count).expect("a request has fewer bytes than that");
    let Request { seen, once, has_delays, tenants, .. } = &part[0];
    let tenants = u16::try_from(tenants.len()).expect("a request has fewer tenants");
    let mut head = Vec::with_capacity(53 + part.iter().map(|request| request.places.len()).sum::<usize>());
    head.extend(queue.to_be_bytes());
    head.extend(count.to_be_bytes());
    head.extend(seen.to_be_bytes());
    head.extend(once.as_ref().map_or(0, |once| once.kept_s).to_be_bytes());
    head.extend(tenants.to_be_bytes());
    head.push((*has_delays).into());
    head.extend(part.iter().flat_map(|request| &request.places));
    head.extend(once.iter().flat_map(|once| once.name.into_iter().chain(once.digest)));
    head.into()
}

/// Tells the requests of a part what came of it.
pub(super) fn answer(part: Vec<Request>, outcome: &Bytes) {
    let mut before = 0;
    for request in part {
        let posting = read_outcome(&request, outcome, before);
        before += request.nonces.len() as u64;
        request.answer(posting);
    }
}

/// What came of a request in whose part so many messages are before its own.
fn read_outcome(request: &Request, outcome: &Bytes, before: u64) -> Result<Posting, Error> {
    let queue = &request.queue;
    let (kind, rest) = outcome.split_first().unwrap_or((&0, &[]));
    match kind {
        b'r' => {
            let first = id_of(queue, rest)?.rank().micros() + before;
            let keys = (first..).zip(&request.nonces).map(|(rank, nonce)| key::key(rank, nonce_bytes(*nonce)));
            Ok(Posting::Posted(keys.map(|key| id_of(queue, &key)).collect::<Result<_, _>>()?))
        }
        b'p' => Ok(Posting::Posted(rest.chunks(KEY_BYTES).map(|key| id_of(queue, key)).collect::<Result<_, _>>()?)),
        b's' => Ok(Posting::Stale(match rest.split_first_chunk() {
            Some((revision, metadata)) => Some(queues::read_queue(u64::from_be_bytes(*revision), metadata)?),
            None => None,
        })),
        b'o' => Ok(Posting::OtherContent),
        b'f' => Err(refused(MESSAGE_POST.name, &String::from_utf8_lossy(rest))),
        kind => Err(reply::unknown(MESSAGE_POST.name, &char::from(*kind).to_string())),
    }
}
