//! A request to post messages: encoded for the script, and completed with the outcome in its reply.

use std::sync::Arc;

use ahash::HashMap;
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::entry::{Entry, SizeClass};
use crate::key::{self, KEY_BYTES, id_of, nonce_bytes};
use crate::redis::connection::error_from_reply;
use crate::redis::script::MESSAGE_POST;
use crate::redis::{reply, shard_digits};
use crate::{Error, Post, PostOutcome, record};
use sukkal_base::memory_budget::MemoryShare;
use sukkal_domain::idempotency::DIGEST_BYTES;
use sukkal_domain::message::Nonce;
use sukkal_domain::quotas::QUOTA_MAX;
use sukkal_domain::{ProjectId, QueueId, QueueLimits, Quota, Shard, ShardAssignment};

/// Maximum size of the fields of a message: 5 + 9 + 4 + 4 + 2 bytes.
const MESSAGE_FIELDS_BYTES_MAX: usize = 24;

// The first byte of an outcome: see `scripts/message_post.lua`.
const RANKS_POSTED: u8 = b'r';
const KEYS_POSTED: u8 = b'p';
const KEYS_REPEATED: u8 = b'k';
const STALE: u8 = b's';
const OTHER_CONTENT: u8 = b'o';
const TOO_MANY: u8 = b'q';
const TOO_LARGE: u8 = b'b';
const FAILED: u8 = b'f';
// Flags of a part.
const HAS_DELAYS: u8 = 1;
const HAS_LIMITS: u8 = 2;
/// Due changes of the queue must be applied first.
pub(super) const DUE_FIRST: u8 = b'u';

/// A request, encoded for the script.
pub(super) struct Request {
    pub(super) queue: QueueId,
    last_known_revision: u64,
    nonces: Vec<Nonce>,
    /// For each message: nonce, poster, size class, ttl, the delay if any message has one, and the
    /// tenant if the queue is fair.
    message_fields: Vec<u8>,
    has_delays: bool,
    /// For each tenant: the number of its shards, the shards, and its name.
    pub(super) tenants: Vec<Bytes>,
    /// The record of each message.
    pub(super) records: Vec<Bytes>,
    /// Sum of the sizes of the messages.
    bytes: u64,
    pub(super) idempotency: Option<Idempotency>,
    limits: QueueLimits,
    /// Whether the request is a part of its own.
    is_alone: bool,
    outcome_sender: oneshot::Sender<Result<PostOutcome, Error>>,
    /// Bounds the requests that wait for a receipt.
    _receipt_permit: Option<MemoryShare>,
}

/// The fields of an idempotency key that the script needs.
pub(super) struct Idempotency {
    name: [u8; 16],
    digest: [u8; DIGEST_BYTES],
    kept_s: u32,
}

/// The tenants of a request, numbered from 1.
#[derive(Default)]
struct TenantTable {
    numbers: HashMap<Arc<ShardAssignment>, u16>,
    encoded: Vec<Bytes>,
}

impl TenantTable {
    fn number(&mut self, assignment: &Arc<ShardAssignment>) -> u16 {
        let Self { numbers, encoded } = self;
        *numbers.entry(assignment.clone()).or_insert_with(|| {
            let candidates: Vec<&Shard> = assignment.candidates().collect();
            let count = u16::try_from(candidates.len()).expect("a tenant has few shards");
            let shards = shard_digits::encode_all(candidates);
            encoded.push([&count.to_be_bytes(), &shards[..], assignment.tenant.as_str().as_bytes()].concat().into());
            u16::try_from(encoded.len()).expect("a request has fewer tenants")
        })
    }
}

impl Request {
    pub(super) fn new(
        queue: &QueueId,
        post: &Post<'_>,
        outcome_sender: oneshot::Sender<Result<PostOutcome, Error>>,
        receipt_permit: Option<MemoryShare>,
    ) -> Self {
        let poster = post.client.poster();
        let has_delays = post.messages.iter().any(|message| message.delay_s > 0);
        let count = post.messages.len();
        let mut message_fields = Vec::with_capacity(count * MESSAGE_FIELDS_BYTES_MAX);
        let (mut records, mut bytes, mut tenants) = (Vec::with_capacity(count), 0, TenantTable::default());
        let nonces: Vec<Nonce> = post.messages.iter().map(|_| Nonce::random()).collect();
        for (message, nonce) in post.messages.iter().zip(&nonces) {
            let record = record::new(message, post.trace, post.origin);
            message_fields.extend_from_slice(&nonce_bytes(*nonce));
            let size = SizeClass::of(record.len());
            bytes += size.bytes_max() as u64;
            message_fields.extend_from_slice(&Entry::poster_and_size(poster, size));
            message_fields.extend_from_slice(&message.ttl_s.to_be_bytes());
            if has_delays {
                message_fields.extend_from_slice(&message.delay_s.to_be_bytes());
            }
            message_fields
                .extend(message.assignment.iter().flat_map(|assignment| tenants.number(assignment).to_be_bytes()));
            records.push(record);
        }
        let idempotency = post.idempotency.map(|(idempotency, kept_s)| Idempotency {
            name: idempotency.name(post.client),
            digest: idempotency.digest(post.client),
            kept_s,
        });
        Self {
            queue: queue.clone(),
            last_known_revision: post.last_known_revision.0,
            nonces,
            message_fields,
            has_delays,
            tenants: tenants.encoded,
            records,
            bytes,
            idempotency,
            limits: post.limits,
            is_alone: false,
            outcome_sender,
            _receipt_permit: receipt_permit,
        }
    }

    pub(super) fn project(&self) -> &ProjectId {
        self.queue.project()
    }

    /// Returns whether the request can form one part together with other plain ones.
    fn is_plain(&self) -> bool {
        !self.has_delays && !self.is_alone && self.tenants.is_empty() && self.idempotency.is_none()
    }

    /// Returns the request as a part of its own.
    pub(super) fn alone(self) -> Self {
        Self { is_alone: true, ..self }
    }

    /// Sends the outcome to the caller.
    pub(super) fn complete(self, outcome: Result<PostOutcome, Error>) {
        let _caller_is_gone = self.outcome_sender.send(outcome);
    }
}

/// Groups the requests of a batch into parts. Requests in a part are accepted or refused together.
pub(super) fn into_parts(batch: Vec<Request>) -> Vec<Vec<Request>> {
    let mut parts: Vec<Vec<Request>> = Vec::with_capacity(1);
    let mut plain: HashMap<(QueueId, u64, QueueLimits), usize> = HashMap::default();
    for request in batch {
        let index = if request.is_plain() {
            *plain.entry((request.queue.clone(), request.last_known_revision, request.limits)).or_insert(parts.len())
        } else {
            parts.len()
        };
        if index == parts.len() {
            parts.push(Vec::new());
        }
        parts[index].push(request);
    }
    parts
}

/// Encodes the head of a part for the script.
pub(super) fn encode_head(part: &[Request], queue: u16) -> Bytes {
    let count = part.iter().map(|request| request.records.len()).sum::<usize>();
    let count = u32::try_from(count).expect("a request has fewer messages");
    let Request { last_known_revision, idempotency, has_delays, tenants, limits, .. } = &part[0];
    let tenants = u16::try_from(tenants.len()).expect("a request has fewer tenants");
    let mut head = Vec::with_capacity(78 + part.iter().map(|request| request.message_fields.len()).sum::<usize>());
    head.extend(queue.to_be_bytes());
    head.extend(count.to_be_bytes());
    head.extend(last_known_revision.to_be_bytes());
    head.extend(idempotency.as_ref().map_or(0, |idempotency| idempotency.kept_s).to_be_bytes());
    head.extend(tenants.to_be_bytes());
    let has_limits = *limits != QueueLimits::default();
    head.push(u8::from(*has_delays) * HAS_DELAYS + u8::from(has_limits) * HAS_LIMITS);
    head.extend(part.iter().map(|request| request.bytes).sum::<u64>().to_be_bytes());
    if has_limits {
        head.extend(limits.messages.unwrap_or(QUOTA_MAX).to_be_bytes());
        head.extend(limits.bytes.unwrap_or(QUOTA_MAX).to_be_bytes());
    }
    head.extend(part.iter().flat_map(|request| &request.message_fields));
    head.extend(idempotency.iter().flat_map(|idempotency| idempotency.name.into_iter().chain(idempotency.digest)));
    head.into()
}

/// Returns whether a part was refused because its requests together exceed a limit. Some of them
/// may be within it.
pub(super) fn is_full_together(part: &[Request], outcome: &Bytes) -> bool {
    part.len() > 1 && matches!(outcome.first(), Some(&(TOO_MANY | TOO_LARGE)))
}

/// Sends the outcome of a part to each of its requests; `durability` is the error of those whose
/// messages were posted. Returns the number of messages that were posted.
pub(super) fn complete_part(part: Vec<Request>, outcome: &Bytes, durability: &Result<(), Error>) -> u64 {
    let mut before = 0;
    for request in part {
        let posting = match read_outcome(&request, outcome, before) {
            Ok(PostOutcome::Posted(ids)) => durability.clone().map(|()| PostOutcome::Posted(ids)),
            outcome => outcome,
        };
        before += request.nonces.len() as u64;
        request.complete(posting);
    }
    if matches!(outcome.first(), Some(&(RANKS_POSTED | KEYS_POSTED))) { before } else { 0 }
}

/// Decodes the outcome of a request. `before` is the number of messages in its part before its own.
fn read_outcome(request: &Request, outcome: &Bytes, before: u64) -> Result<PostOutcome, Error> {
    let queue = &request.queue;
    let (kind, rest) = outcome.split_first().unwrap_or((&0, &[]));
    match *kind {
        RANKS_POSTED => {
            let first = id_of(queue, rest)?.rank().micros() + before;
            let keys = (first..).zip(&request.nonces).map(|(rank, nonce)| key::key(rank, nonce_bytes(*nonce)));
            Ok(PostOutcome::Posted(keys.map(|key| id_of(queue, &key)).collect::<Result<_, _>>()?))
        }
        KEYS_POSTED | KEYS_REPEATED => {
            Ok(PostOutcome::Posted(rest.chunks(KEY_BYTES).map(|key| id_of(queue, key)).collect::<Result<_, _>>()?))
        }
        STALE => Ok(PostOutcome::Stale(match rest.split_first_chunk() {
            Some((revision, metadata)) => Some(reply::read_queue(u64::from_be_bytes(*revision), metadata)?),
            None => None,
        })),
        OTHER_CONTENT => Ok(PostOutcome::KeyReused),
        TOO_MANY => Ok(PostOutcome::Full(Quota::MessagesPerQueue)),
        TOO_LARGE => Ok(PostOutcome::Full(Quota::BytesPerQueue)),
        FAILED => Err(error_from_reply(MESSAGE_POST.name, &String::from_utf8_lossy(rest))),
        kind => Err(reply::unknown_kind(MESSAGE_POST.name, &char::from(kind).to_string())),
    }
}
