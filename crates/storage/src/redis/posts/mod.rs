//! Group commit: requests that arrive while posting scripts are in flight are posted together in
//! the next script.
//!
//! A request is sent at once if no script is in flight. Otherwise it waits for the next script; a
//! second script starts beside the first when it would be full. A task that has finished its script
//! takes all requests that wait by then. In a cluster a
//! script has one slot, and so have its requests. Plain requests to one queue are one part of the
//! script, which costs Redis little more than their messages.
//!
//! Requests that require a durability form groups of their own, one for each level. Their scripts
//! run on the connections of `connection/receipts.rs`, so no other request waits for them. In a
//! group, projects take turns.

mod request;
mod retry_slots;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use ahash::HashMap;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::request::{DUE_FIRST, Request, complete_part, encode_head, into_parts, is_full_together};
use self::retry_slots::RetrySlots;
use super::arguments;
use super::connection::{Connection, REPLY_DELAY_MAX, Receipt};
use super::keys::{self, QueueKeys};
use super::script::MESSAGE_POST;
use crate::{Error, Post, PostOutcome, Processed};
use sukkal_domain::{Durability, ProjectId, QueueId};

/// How long Redis keeps a reply, in milliseconds: much longer than a request is retried.
const REPLY_LIFETIME_MS: &str = "30000";

/// Number of keys of a queue that every post needs. They are the first ones of the script.
const PLAIN_KEYS: usize = 6;
/// Maximum number of tenants of the requests in one script.
const TENANTS_MAX: usize = 64;

/// Maximum number of requests that wait in a slot. Admission allows fewer; the others belong to
/// clients that have disconnected.
const WAITING_MAX: usize = 1_024;

// These are measured values. With one script in flight, batches are large, which saves a fifth of
// the processor time of the store and of the service; more messages per script gain little. The
// second script is for stores with a long round trip.
/// Maximum number of messages in a script, unless it has only one request.
const BATCH_MESSAGES_MAX: usize = 64;
/// Maximum size in bytes of the records in a script, unless it has only one request.
const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Maximum number of scripts in flight, in a cluster for each slot. A second script starts only
/// when it would be full.
const IN_FLIGHT_MAX: usize = 2;

/// Posts the messages of this process. Cheap to clone.
#[derive(Clone)]
pub(super) struct PostBatcher {
    connection: Connection,
    retry_slots: RetrySlots,
    groups: Arc<Mutex<HashMap<GroupKey, Group>>>,
}

/// What the requests of a script have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupKey {
    slot: u16,
    /// The durability that the requests require, and the time for it.
    durability: Option<(Durability, Duration)>,
}

/// The requests with one key.
#[derive(Default)]
struct Group {
    waiting: VecDeque<Request>,
    in_flight: usize,
}

impl PostBatcher {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection, retry_slots: RetrySlots::new(), groups: Arc::default() }
    }

    /// Posts to one queue. A post that has begun is completed even if the caller is dropped.
    pub(super) async fn post(&self, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        let (sender, receiver) = oneshot::channel();
        let slot = self.connection.slot_with(|| QueueKeys::of(queue).queue());
        let permit = post.durability.map(|_| self.connection.receipt_permit(slot, queue.project())).transpose()?;
        let request = Request::new(queue, post, sender, permit);
        let key = GroupKey { slot, durability: post.durability };
        if self.groups.lock().get(&key).is_some_and(|group| group.waiting.len() >= WAITING_MAX) {
            return Err(Error::Overloaded);
        }
        self.enqueue(key, request);
        let answer = match post.durability {
            None => receiver.await,
            Some((level, wait_max)) => {
                let late = |_| Error::NotDurable { level, reason: "other posts were waiting for it".to_owned() };
                timeout(wait_max + REPLY_DELAY_MAX, receiver).await.map_err(late)?
            }
        };
        let outcome = answer.unwrap_or_else(|_| Err(Error::Unavailable("a post was dropped".to_owned())));
        // The reply to a batch has this error for each of its requests.
        if let Err(error @ (Error::DiskFull(_) | Error::MemoryFull(_))) = &outcome {
            self.connection.note_refusal(slot, error);
        }
        outcome
    }

    /// Adds a request to those that wait, and starts a task if fewer are running than allowed.
    fn enqueue(&self, key: GroupKey, request: Request) {
        if self.push(key, request) {
            // Boxed, because a task is moved several times before it runs, and this one is large.
            tokio::spawn(Box::pin(self.clone().post_batches(key)));
        }
    }

    /// Adds a request to those that wait. Returns whether a task must be started for it.
    fn push(&self, key: GroupKey, request: Request) -> bool {
        let mut groups = self.groups.lock();
        let group = groups.entry(key).or_default();
        let place = match key.durability {
            // Admission has put these requests in order.
            None => group.waiting.len(),
            Some(_) => place_in_turn(group.waiting.iter().map(Request::project), request.project()),
        };
        group.waiting.insert(place, request);
        let fills_another_batch = group.in_flight < IN_FLIGHT_MAX && group.waiting.len() >= BATCH_MESSAGES_MAX;
        let needs_task = group.in_flight == 0 || fills_another_batch;
        group.in_flight += usize::from(needs_task);
        needs_task
    }

    /// Posts batches until no request waits.
    async fn post_batches(self, key: GroupKey) {
        while let Some(batch) = self.next_batch(key) {
            let outcomes = self.run(key, &batch).await;
            if let Err(error @ (Error::Unavailable(_) | Error::TooFewReplicas { .. })) = &outcomes {
                // These requests would wait for the same unavailable store or replicas, one batch
                // after the other.
                for request in self.take_waiting(key) {
                    request.complete(Err(error.clone()));
                }
            }
            match outcomes {
                Ok((outcomes, durability)) => {
                    let mut blocked = Vec::new();
                    for (part, outcome) in batch.into_iter().zip(outcomes) {
                        if *outcome == [DUE_FIRST] {
                            blocked.extend(part);
                        } else if is_full_together(&part, &outcome) {
                            for request in part {
                                self.enqueue(key, request.alone());
                            }
                        } else {
                            let posted = complete_part(part, &outcome, &durability);
                            self.connection.processed.add(Processed { posted, ..Processed::default() });
                        }
                    }
                    if !blocked.is_empty() {
                        // In a separate task, because other queues need this one.
                        tokio::spawn(self.clone().apply_due_and_retry(key, blocked));
                    }
                }
                Err(error) => batch.into_iter().flatten().for_each(|request| request.complete(Err(error.clone()))),
            }
        }
    }

    /// Applies the due changes of the queues of these requests, and posts the requests again.
    async fn apply_due_and_retry(self, key: GroupKey, requests: Vec<Request>) {
        let mut applied: HashMap<QueueId, Result<(), Error>> = HashMap::default();
        for request in requests {
            if !applied.contains_key(&request.queue) {
                let outcome = self.connection.apply_due(&QueueKeys::of(&request.queue)).await;
                applied.insert(request.queue.clone(), outcome);
            }
            match applied[&request.queue].clone() {
                Ok(()) => self.enqueue(key, request),
                Err(error) => request.complete(Err(error)),
            }
        }
    }

    /// Takes the requests of the next script, grouped into parts. The task must end if there are
    /// none.
    fn next_batch(&self, key: GroupKey) -> Option<Vec<Vec<Request>>> {
        let mut groups = self.groups.lock();
        let group = groups.get_mut(&key)?;
        let (mut batch, mut messages, mut bytes, mut tenants) = (Vec::new(), 0, 0, 0);
        while let Some(request) = group.waiting.front() {
            messages += request.records.len();
            bytes += request.records.iter().map(Bytes::len).sum::<usize>();
            tenants += request.tenants.len();
            let is_full = messages > BATCH_MESSAGES_MAX || bytes > BATCH_BYTES_MAX;
            if !batch.is_empty() && (is_full || tenants > TENANTS_MAX) {
                break;
            }
            batch.extend(group.waiting.pop_front());
        }
        if batch.is_empty() {
            group.in_flight -= 1;
            if group.in_flight == 0 {
                groups.remove(&key);
            }
            return None;
        }
        Some(into_parts(batch))
    }

    fn take_waiting(&self, key: GroupKey) -> VecDeque<Request> {
        self.groups.lock().get_mut(&key).map(|group| std::mem::take(&mut group.waiting)).unwrap_or_default()
    }

    /// Runs the script for a batch with this key. Returns the outcome of each part, and whether the
    /// batch has reached the durability that it requires.
    async fn run(&self, key: GroupKey, batch: &[Vec<Request>]) -> Result<(Vec<Bytes>, Result<(), Error>), Error> {
        let GroupKey { slot, durability } = key;
        let retry_slot = self.retry_slots.acquire();
        let is_plain =
            batch.iter().flatten().all(|request| request.tenants.is_empty() && request.idempotency.is_none());
        // The last key of the script is the index of due queues, which all queues share.
        let names = &MESSAGE_POST.keys[..if is_plain { PLAIN_KEYS } else { MESSAGE_POST.keys.len() - 1 }];
        let mut keys = Vec::with_capacity(names.len() + 2);
        let mut numbers: HashMap<&QueueId, u16> = HashMap::default();
        let parts_args = batch.iter().flatten().map(|request| 1 + request.tenants.len() + request.records.len());
        let mut args = Vec::with_capacity(4 + parts_args.sum::<usize>());
        for part in batch {
            let next = u16::try_from(numbers.len() + 1).expect("a batch has few requests");
            let number = *numbers.entry(&part[0].queue).or_insert_with(|| {
                keys.extend(QueueKeys::of(&part[0].queue).named(names, slot));
                next
            });
            args.push(encode_head(part, number));
            args.extend(part.iter().flat_map(|request| request.tenants.iter().chain(&request.records)).cloned());
        }
        keys.push(keys::last_reply(slot, retry_slot.name()));
        keys.push(keys::due(slot));
        let lifetime_ms = Bytes::from_static(REPLY_LIFETIME_MS.as_bytes());
        let numbers = [
            arguments::number(numbers.len() as u64),
            arguments::number(names.len() as u64),
            arguments::number(retry_slot.sequence()),
            lifetime_ms,
        ];
        args.splice(..0, numbers);

        let mut receipt = match durability {
            None => Receipt { reply: self.connection.run_on(&MESSAGE_POST, keys, args).await?, durability: Ok(()) },
            Some(level) => {
                let project = batch[0][0].project();
                self.connection.run_durably(&MESSAGE_POST, &keys, &args, project, level).await?
            }
        };
        let outcomes = batch.iter().map(|_| receipt.reply.bytes()).collect::<Result<_, _>>()?;
        Ok((outcomes, receipt.durability))
    }
}

/// Returns where a request of this project is put among the projects of waiting requests: after as
/// many requests of any other project as its own project has there.
fn place_in_turn<'a>(waiting: impl Iterator<Item = &'a ProjectId> + Clone, project: &ProjectId) -> usize {
    let own = waiting.clone().filter(|other| *other == project).count();
    let mut counts: HashMap<&ProjectId, usize> = HashMap::default();
    let mut place = 0;
    for other in waiting {
        let count = counts.entry(other).or_default();
        *count += 1;
        if *count > own + 1 {
            break;
        }
        place += 1;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn projects_take_turns_however_many_requests_each_has() {
        let mut waiting: VecDeque<ProjectId> = VecDeque::new();
        for name in ["busy", "busy", "busy", "busy", "quiet", "third", "quiet", "busy"] {
            let project = ProjectId::new(name).unwrap();
            waiting.insert(place_in_turn(waiting.iter(), &project), project);
        }

        let order: Vec<&str> = waiting.iter().map(ProjectId::as_str).collect();
        assert_eq!(order, ["busy", "quiet", "third", "busy", "quiet", "busy", "busy", "busy"]);
    }
}
