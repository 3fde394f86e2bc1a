//! Group commit: what is posted while posts are under way is posted together, in one script.
//!
//! Nothing waits for company: a post goes at once unless enough scripts are under way, and whoever comes back
//! takes along all that waits by then. In a cluster a script has one slot, and so has what it carries. Requests to one queue
//! that ask for nothing special are one part of the script: it costs Redis little more than the messages.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::connection::Connection;
use super::keys::QueueKeys;
use super::lanes::Lanes;
use super::messages::text;
use super::post_request::{Request, answer, head, into_parts};
use super::script::MESSAGE_POST;
use super::slots::due_key;
use crate::domain::QueueId;
use crate::storage::{Error, Post, Posting};

/// How long an answer is remembered: much longer than anybody goes on asking for it.
const ANSWER_REMEMBERED_MS: &str = "30000";

/// The outcome of a part in whose queue what is due must be applied first.
const UNSETTLED: &[u8] = b"u";
/// The keys at the front of the script's that every post needs of a queue.
const PLAIN_PARTS: usize = 6;
/// Maximum number of tenants of the requests in one script.
const TENANTS_MAX: usize = 64;

/// Maximum number of posts that wait in a slot. Fewer are admitted; the others are of clients that disconnected meanwhile.
const WAITING_MAX: usize = 1_024;

/// How posts are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// A script takes on no further request when it has so many messages.
    pub messages_max: usize,
    /// Nor when they have so many bytes.
    pub bytes_max: usize,
    /// Maximum number of scripts under way, in a cluster for each slot. A second one starts only when it would be full.
    pub under_way_max: usize,
}

impl Batches {
    /// Every request has a script of its own, and none waits.
    pub const SINGLE: Self = Self { messages_max: 1, bytes_max: 0, under_way_max: usize::MAX };
}

impl Default for Batches {
    /// As measured: with one script under way, batches are large, which saves a fifth of the store's time and of the service's; more
    /// messages gain little. The second script is for stores that are far away.
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

impl Posts {
    pub(super) fn new(connection: Connection, batches: Batches) -> Self {
        Self { connection, lanes: Lanes::new(), batches, groups: Arc::default() }
    }

    /// Posts to one queue. What has begun goes on if nobody waits for it any more.
    pub(super) async fn post(&self, queue: &QueueId, post: &Post<'_>) -> Result<Posting, Error> {
        let (tell, told) = oneshot::channel();
        let request = Request::new(queue, post, tell);
        let slot = self.connection.slot(request.keys.prefix());
        if self.groups().get(&slot).is_some_and(|group| group.waiting.len() >= WAITING_MAX) {
            return Err(Error::Overloaded);
        }
        self.enqueue(slot, request);
        let outcome = told.await.unwrap_or_else(|_| Err(Error::Unavailable("a post was given up".to_owned())));
        // The server's answer to a batch says it of each request.
        if let Err(error @ (Error::DiskFull(_) | Error::MemoryFull(_))) = &outcome {
            self.connection.note_refusal(slot, error);
        }
        outcome
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
        let is_worth_another =
            group.under_way < self.batches.under_way_max && group.waiting.len() >= self.batches.messages_max;
        let sets_out = group.under_way == 0 || is_worth_another;
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
                    for (part, outcome) in batch.into_iter().zip(outcomes) {
                        if *outcome == *UNSETTLED {
                            unsettled.extend(part);
                        } else {
                            answer(part, &outcome);
                        }
                    }
                    if !unsettled.is_empty() {
                        // In a task of its own, because other queues need this one.
                        tokio::spawn(self.clone().settle_and_retry(slot, unsettled));
                    }
                }
                Err(error) => batch.into_iter().flatten().for_each(|request| request.answer(Err(error.clone()))),
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

    /// What one script takes of what waits, in parts: one request at least. The last one to find nothing leaves.
    fn next_batch(&self, slot: u16) -> Option<Vec<Vec<Request>>> {
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
        Some(into_parts(batch))
    }

    fn all_waiting(&self, slot: u16) -> VecDeque<Request> {
        self.groups().get_mut(&slot).map(|group| std::mem::take(&mut group.waiting)).unwrap_or_default()
    }

    /// The outcome of each part, as the script puts it.
    async fn run(&self, batch: &[Vec<Request>]) -> Result<Vec<Bytes>, Error> {
        let lane = self.lanes.take();
        let first = &batch[0][0].keys;
        let slot = self.connection.slot(first.prefix());
        let is_plain = batch.iter().flatten().all(|request| request.tenants.is_empty() && request.once.is_none());
        // Behind the parts of a queue, the script has the index of due queues.
        let parts = &MESSAGE_POST.keys[..if is_plain { PLAIN_PARTS } else { MESSAGE_POST.keys.len() - 1 }];
        let mut keys = Vec::new();
        let mut numbers: HashMap<&QueueKeys, u16> = HashMap::new();
        let mut args = Vec::new();
        for part in batch {
            let next = u16::try_from(numbers.len() + 1).expect("a batch has few requests");
            let number = *numbers.entry(&part[0].keys).or_insert_with(|| {
                keys.extend(part[0].keys.parts(parts, slot));
                next
            });
            args.push(head(part, number));
            args.extend(part.iter().flat_map(|request| request.tenants.iter().chain(&request.records)).cloned());
        }
        keys.push(first.answer(&lane.name()));
        keys.push(due_key(slot));
        let remembered_ms = Bytes::from_static(ANSWER_REMEMBERED_MS.as_bytes());
        let numbers = [text(numbers.len() as u64), text(parts.len() as u64), text(lane.sequence()), remembered_ms];
        args.splice(..0, numbers);

        let mut reply = self.connection.run_on(&MESSAGE_POST, keys, args).await?;
        batch.iter().map(|_| reply.bytes()).collect()
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<u16, Group>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
