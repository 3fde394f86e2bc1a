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
use super::script::{MESSAGE_POST, QUEUE_SETTLE};
use super::{queues, reply, shards};
use crate::domain::message::Nonce;
use crate::domain::{Lot, QueueId};
use crate::storage::key::{KEY_BYTES, id_of, nonce_bytes};
use crate::storage::{Error, Post, Posting, record};

/// How long an answer is remembered: much longer than anybody goes on asking for it.
const ANSWER_REMEMBERED_MS: &str = "30000";

/// The outcome of a request that has to wait until its queue is settled.
const UNSETTLED: &[u8] = b"u";

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
    /// Nonce, delay and, in a fair queue, tenant of each message.
    places: Vec<u8>,
    /// How many shards each tenant has drawn, these, and its name.
    tenants: Vec<Bytes>,
    /// The record of each message.
    records: Vec<Bytes>,
    once: Option<Once>,
    tell: oneshot::Sender<Result<Posting, Error>>,
}

/// What the script needs to know of an idempotency key.
struct Once {
    name: u128,
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
        if self.joins(slot, request) {
            // In a box, because a task is moved several times before it runs, and this one is large.
            tokio::spawn(Box::pin(self.clone().carry(slot)));
        }
        told.await.unwrap_or_else(|_| Err(Error::Unavailable("a post was given up".to_owned())))
    }

    /// Lets the request wait, and says whether somebody has to set out for it.
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
                    self.settle_and_retry(slot, unsettled).await;
                }
                Err(error) => batch.into_iter().for_each(|request| request.answer(Err(error.clone()))),
            }
        }
    }

    /// Settles the queues of these requests, and lets them be the next again.
    async fn settle_and_retry(&self, slot: u16, requests: Vec<Request>) {
        let mut settled: HashMap<QueueKeys, Result<(), Error>> = HashMap::new();
        let mut next = Vec::new();
        for request in requests {
            if !settled.contains_key(&request.keys) {
                let outcome = self.connection.run_settled(&QUEUE_SETTLE, request.keys.all(), &[]).await;
                settled.insert(request.keys.clone(), outcome.map(drop));
            }
            match settled[&request.keys].clone() {
                Ok(()) => next.push(request),
                Err(error) => request.answer(Err(error)),
            }
        }
        if !next.is_empty() {
            let mut groups = self.groups();
            let waiting = &mut groups.entry(slot).or_default().waiting;
            next.into_iter().rev().for_each(|request| waiting.push_front(request));
        }
    }

    /// What one script takes of what waits: one request at least. The last one to find nothing leaves.
    fn next_batch(&self, slot: u16) -> Option<Vec<Request>> {
        let mut groups = self.groups();
        let group = groups.get_mut(&slot)?;
        let (mut batch, mut messages, mut bytes) = (Vec::new(), 0, 0);
        while let Some(request) = group.waiting.front() {
            messages += request.records.len();
            bytes += request.records.iter().map(Bytes::len).sum::<usize>();
            if !batch.is_empty() && (messages > self.batches.messages_max || bytes > self.batches.bytes_max) {
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
        let (mut keys, mut kept_answers, mut heads) = (Vec::new(), Vec::new(), Vec::new());
        let mut numbers: HashMap<&QueueKeys, u16> = HashMap::new();
        for request in batch {
            let next = u16::try_from(numbers.len() + 1).expect("a batch has few requests");
            let number = *numbers.entry(&request.keys).or_insert_with(|| {
                keys.extend(request.keys.for_posts());
                next
            });
            let kept = request.once.as_ref().map_or(0, |once| {
                kept_answers.push(request.keys.kept_answer(once.name));
                u16::try_from(kept_answers.len()).expect("a batch has few requests")
            });
            heads.push(request.head(number, kept));
        }
        keys.push(batch[0].keys.answer(&lane.name()));
        let mut args = vec![text(numbers.len() as u64), text(kept_answers.len() as u64), text(lane.sequence())];
        args.push(Bytes::from_static(ANSWER_REMEMBERED_MS.as_bytes()));
        keys.extend(kept_answers);
        for (request, head) in batch.iter().zip(heads) {
            args.push(head);
            args.extend(request.tenants.iter().cloned());
            args.extend(request.records.iter().cloned());
        }

        let mut reply = self.connection.run(&MESSAGE_POST, keys, args).await?;
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
        let (mut places, mut tenants) = (Vec::new(), Tenants::default());
        for message in post.messages {
            places.extend(nonce_bytes(Nonce::random()));
            places.extend(message.delay_s.to_be_bytes());
            places.extend(message.lot.iter().flat_map(|lot| tenants.number(lot).to_be_bytes()));
        }
        let once = post.once.map(|(once, kept_s)| Once {
            name: u128::from_be_bytes(once.name(post.client)),
            digest: once.digest(post.client),
            kept_s,
        });
        Self {
            queue: queue.clone(),
            keys: QueueKeys::of(queue),
            seen: post.seen.0,
            places,
            tenants: tenants.encoded,
            records: post.messages.iter().map(|message| record::ranked(message, poster)).collect(),
            once,
            tell,
        }
    }

    /// Its head, as the script reads it.
    fn head(&self, queue: u16, kept_answer: u16) -> Bytes {
        let count = u32::try_from(self.records.len()).expect("a request has fewer bytes than that");
        let tenants = u16::try_from(self.tenants.len()).expect("a request has fewer tenants");
        let mut head = Vec::with_capacity(38 + self.places.len());
        head.extend(queue.to_be_bytes());
        head.extend(count.to_be_bytes());
        head.extend(self.seen.to_be_bytes());
        head.extend(kept_answer.to_be_bytes());
        head.extend(self.once.as_ref().map_or(0, |once| once.kept_s).to_be_bytes());
        head.extend(tenants.to_be_bytes());
        head.extend_from_slice(&self.places);
        head.extend(self.once.iter().flat_map(|once| once.digest));
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
