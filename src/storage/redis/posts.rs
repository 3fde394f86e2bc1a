//! Group commit: what is posted while posts are under way is posted together, in one script.
//!
//! Nothing waits for company: a post goes at once unless enough scripts are under way, and whoever comes back
//! takes along all that waits by then. In a cluster a script has one slot, and so has what it carries.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::connection::{Connection, refused};
use super::keys::QueueKeys;
use super::lanes::Lanes;
use super::messages::text;
use super::script::MESSAGE_POST;
use super::slots::due_key;
use super::{queues, reply, shards};
use crate::domain::message::Nonce;
use crate::domain::{Lot, QueueId};
use crate::storage::entry::{Entry, SizeClass};
use crate::storage::key::{KEY_BYTES, id_of, nonce_bytes};
use crate::storage::{Error, Post, Posting, record};

/// How long an answer is remembered: much longer than anybody goes on asking for it.
const ANSWER_REMEMBERED_MS: &str = "30000";

/// The outcome of a request in whose queue, a fair one, something is due.
const UNSETTLED: &[u8] = b"u";
/// The keys at the front of the script's that every post needs of a queue.
const PLAIN_PARTS: usize = 6;
/// Maximum number of tenants of the requests in one script.
const TENANTS_MAX: usize = 64;

/// How posts are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// A script takes on no further request when it has so many messages.
    pub messages_max: usize,
    /// Nor when they have so many bytes.
    pub bytes_max: usize,
    /// So many scripts are under way at a time, in a cluster for each slot.
    pub under_way_max: usize,
}

impl Batches {
    /// Every request has a script of its own, and none waits.
    pub const SINGLE: Self = Self { messages_max: 1, bytes_max: 0, under_way_max: usize::MAX };
}

impl Default for Batches {
    /// As measured: more messages gain little, and two scripts keep two connections busy.
    fn default() -> Self {
        Self { messages_max: 64, bytes_max: 256 * 1024, under_way_max: 2 }
    }
}

/// The posts of this process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Posts {
    connection: Connection,
    lanes: Lanes,
    batches: Batches,
    groups: Arc<Mutex<HashMap<u16, Group>>>,
}

/// What can be posted together.
#[derive(Default)]
struct Group {
    waiting: VecDeque<Request>,
    under_way: usize,
}

/// A request, ready for the script.
struct Request {
    queue: QueueId,
    keys: QueueKeys,
    seen: u64,
    /// Nonce, poster, size class, ttl, and where there are any the delay and the tenant of each message.
    places: Vec<u8>,
    has_delays: bool,
    /// How many shards each tenant has, these, and its name.
    tenants: Vec<Bytes>,
    /// The record of each message.
    records: Vec<Bytes>,
    once: Option<Once>,
    tell: oneshot::Sender<Result<Posting, Error>>,
}

/// What the script needs to know of an idempotency key.
struct Once {
    name: [u8; 16],
    digest: [u8; 16],
    kept_s: u32,
}

impl Posts {
    pub(super) fn new(connection: Connection, batches: Batches) -> Self {
        Self { connection, lanes: Lanes::new(), batches, groups: Arc::default() }
    }

    /// Posts to one queue. What has begun goes on if nobody waits for it any more.
    pub(super) async fn post(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        let (tell, told) = oneshot::channel();
        let request = Request::new(queue, post, tell);
        let slot = self.connection.slot(request.keys.prefix());
        self.enqueue(slot, request);
        told.await.unwrap_or_else(|_| Err(Error::Unavailable("a post was given up".to_owned())))
    }

    /// Lets the request wait for the next script, and starts a task for that if fewer are under way than may be.
    fn enqueue(&self, slot: u16, request: Request) {
        if self.joins(slot, request) {
            // In a box, because a task is moved several times before it runs, and this one is large.
            tokio::spawn(Box::pin(self.clone().carry(slot)));
        }
    }

    /// Lets the request wait. Returns whether a task has to be started for it.
    fn joins(&self, slot: u16, request: Request) -> bool {
        let mut groups = self.groups();
        let group = groups.entry(slot).or_default();
        group.waiting.push_back(request);
        let sets_out = group.under_way < self.batches.under_way_max;
        group.under_way += usize::from(sets_out);
        sets_out
    }

    /// Posts what waits until nothing does.
    async fn carry(self, slot: u16) {
        while let Some(batch) = self.next_batch(slot) {
            let outcomes = self.run(&batch).await;
            if let Err(error @ Error::Unavailable(_)) = &outcomes {
                // They would have to wait for the same store, one batch after the other.
                for request in self.all_waiting(slot) {
                    request.answer(Err(error.clone()));
                }
            }
            match outcomes {
                Ok(outcomes) => {
                    let mut unsettled = Vec::new();
                    for (request, outcome) in batch.into_iter().zip(outcomes) {
                        if *outcome == *UNSETTLED {
                            unsettled.push(request);
                        } else {
                            let outcome = read_outcome(&request.queue, &outcome);
                            request.answer(outcome);
                        }
                    }
                    if !unsettled.is_empty() {
                        // In a task of its own, because other queues need this one.
                        tokio::spawn(self.clone().settle_and_retry(slot, unsettled));
                    }
                }
                Err(error) => batch.into_iter().for_each(|request| request.answer(Err(error.clone()))),
            }
        }
    }

    /// Applies what is due in the queues of these requests, and posts them again.
    async fn settle_and_retry(self, slot: u16, requests: Vec<Request>) {
        let mut settled: HashMap<QueueKeys, Result<(), Error>> = HashMap::new();
        for request in requests {
            if !settled.contains_key(&request.keys) {
                settled.insert(request.keys.clone(), self.connection.settle(&request.keys).await);
            }
            match settled[&request.keys].clone() {
                Ok(()) => self.enqueue(slot, request),
                Err(error) => request.answer(Err(error)),
            }
        }
    }

    /// What one script takes of what waits: one request at least. The last one to find nothing leaves.
    fn next_batch(&self, slot: u16) -> Option<Vec<Request>> {
        let mut groups = self.groups();
        let group = groups.get_mut(&slot)?;
        let (mut batch, mut messages, mut bytes, mut tenants) = (Vec::new(), 0, 0, 0);
        while let Some(request) = group.waiting.front() {
            messages += request.records.len();
            bytes += request.records.iter().map(Bytes::len).sum::<usize>();
            tenants += request.tenants.len();
            let is_full = messages > self.batches.messages_max || bytes > self.batches.bytes_max;
            if !batch.is_empty() && (is_full || tenants > TENANTS_MAX) {
                break;
            }
            batch.extend(group.waiting.pop_front());
        }
        if batch.is_empty() {
            group.under_way -= 1;
            if group.under_way == 0 {
                groups.remove(&slot);
            }
            return None;
        }
        Some(batch)
    }

    fn all_waiting(&self, slot: u16) -> VecDeque<Request> {
        self.groups().get_mut(&slot).map(|group| std::mem::take(&mut group.waiting)).unwrap_or_default()
    }

    /// The outcome of each request, as the script puts it.
    async fn run(&self, batch: &[Request]) -> Result<Vec<Bytes>, Error> {
        let lane = self.lanes.take();
        let slot = self.connection.slot(batch[0].keys.prefix());
        let is_plain = batch.iter().all(|request| request.tenants.is_empty() && request.once.is_none());
        // Behind the parts of a queue, the script has the index of due queues.
        let parts = &MESSAGE_POST.keys[..if is_plain { PLAIN_PARTS } else { MESSAGE_POST.keys.len() - 1 }];
        let mut keys = Vec::new();
        let mut numbers: HashMap<&QueueKeys, u16> = HashMap::new();
        let mut args = Vec::new();
        for request in batch {
            let next = u16::try_from(numbers.len() + 1).expect("a batch has few requests");
            let number = *numbers.entry(&request.keys).or_insert_with(|| {
                keys.extend(request.keys.parts(parts, slot));
                next
            });
            args.push(request.head(number));
            args.extend(request.tenants.iter().cloned());
            args.extend(request.records.iter().cloned());
        }
        keys.push(batch[0].keys.answer(&lane.name()));
        keys.push(due_key(slot));
        let remembered_ms = Bytes::from_static(ANSWER_REMEMBERED_MS.as_bytes());
        let head = [text(numbers.len() as u64), text(parts.len() as u64), text(lane.sequence()), remembered_ms];
        args.splice(..0, head);

        let mut reply = self.connection.run_on(&MESSAGE_POST, keys, args).await?;
        batch.iter().map(|_| reply.bytes()).collect()
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<u16, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            let drawn = u16::try_from(lot.shards.len()).expect("there are no more shards");
            let shards = shards::digits_of(&lot.shards);
            encoded.push([&drawn.to_be_bytes(), &shards[..], lot.tenant.as_str().as_bytes()].concat().into());
            u16::try_from(encoded.len()).expect("a request has fewer tenants")
        })
    }
}

impl Request {
    fn new(queue: &QueueId, post: &Post<'_>, tell: oneshot::Sender<Result<Posting, Error>>) -> Self {
        let poster = post.client.poster();
        let has_delays = post.messages.iter().any(|message| message.delay_s > 0);
        let (mut places, mut records, mut tenants) = (Vec::new(), Vec::new(), Tenants::default());
        for message in post.messages {
            let record = record::new(message);
            places.extend(nonce_bytes(Nonce::random()));
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
            places,
            has_delays,
            tenants: tenants.encoded,
            records,
            once,
            tell,
        }
    }

    /// Its head, as the script reads it.
    fn head(&self, queue: u16) -> Bytes {
        let count = u32::try_from(self.records.len()).expect("a request has fewer bytes than that");
        let tenants = u16::try_from(self.tenants.len()).expect("a request has fewer tenants");
        let mut head = Vec::with_capacity(53 + self.places.len());
        head.extend(queue.to_be_bytes());
        head.extend(count.to_be_bytes());
        head.extend(self.seen.to_be_bytes());
        head.extend(self.once.as_ref().map_or(0, |once| once.kept_s).to_be_bytes());
        head.extend(tenants.to_be_bytes());
        head.push(self.has_delays.into());
        head.extend_from_slice(&self.places);
        head.extend(self.once.iter().flat_map(|once| once.name.into_iter().chain(once.digest)));
        head.into()
    }

    fn answer(self, outcome: Result<Posting, Error>) {
        let _nobody_waits_any_more = self.tell.send(outcome);
    }
}

fn read_outcome(queue: &QueueId, outcome: &Bytes) -> Result<Posting, Error> {
    let (kind, rest) = outcome.split_first().unwrap_or((&0, &[]));
    match kind {
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
