//! The deliveries of one subscription, as a state machine without I/O: what is sent next, and what
//! an outcome changes.
//!
//! Messages come from the feed (`waiting`) and from the retries in the store. A message whose first
//! attempt begins moves from `waiting` to `progress.in_flight`, and the position moves past it. Its
//! outcome removes it from there, and a failure adds a retry in the same change. So at any time, a
//! message is after the position, in flight, a retry, or done.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use sukkal_domain::{
    Attempt, DeliveryOptions, Message, MessageId, Progress, Rank, Retry, RetryPolicy, Subscription, SubscriptionState,
};
use sukkal_storage::{DeliveryChange, FeedState};

/// Time after which messages that were read but not sent are read again, because they may have been
/// deleted.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Maximum number of messages with a retry, and maximum size of their bodies in bytes. From then on
/// the subscription reads no further messages.
const RETRIES_MAX: u32 = 1_000;
const RETRY_BYTES_MAX: u64 = 16 << 20;

/// Number of attempts of a message after which a retry waits for at least [`PAUSE_MIN`], whatever
/// the policy says.
const ATTEMPTS_AT_ONCE_MAX: u32 = 10;
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Pause after a last attempt whose dead letter could not be posted, or that was answered with 410.
const PAUSE_AFTER_LAST: Duration = Duration::from_secs(10);

/// The deliveries of one subscription.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(super) struct SubscriptionDeliveries {
    pub(super) subscription: Subscription,
    pub(super) options: Arc<DeliveryOptions>,
    policy: RetryPolicy,
    pub(super) progress: Progress,
    /// Messages after the position, in order.
    waiting: VecDeque<Arc<Message>>,
    /// The position up to which `waiting` has the messages, and when they were read.
    read_to: Rank,
    read_at: Instant,
    /// The attempts that are running: of each message the retry, or `None` for its first attempt.
    running: HashMap<MessageId, Option<Retry>>,
    /// Due retries that are not running.
    due: VecDeque<Retry>,
    /// Messages that have a retry. It has all of them if `knows_retries`, and otherwise those since
    /// this process has the lease.
    with_retry: HashSet<MessageId>,
    knows_retries: bool,
    /// Whether subscribers must confirm before they are notified.
    requires_confirmation: bool,
    /// Until when attempts of a process that has lost the lease may still run, in microseconds
    /// since 1970.
    lost_until_us: u64,
    /// Whether the store has to be asked for the due retries.
    retries_changed: bool,
    /// Number of attempts that have failed since the last success.
    failures_in_a_row: u32,
    is_changed: bool,
    attempts: Vec<(u64, Attempt)>,
    new_retries: Vec<Retry>,
    ended_retries: Vec<(MessageId, u64)>,
}

/// A message to send.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) message: Arc<Message>,
    /// 1 for the first attempt.
    pub(super) attempt: u32,
    /// Whether the policy allows no further attempt.
    pub(super) is_last: bool,
    /// When the retry became due that this is, in microseconds since 1970; 0 for the first attempt.
    /// It is the same if the attempt is repeated after a crash.
    pub(super) due_us: u64,
    /// When the attempt begins by the store's clock, in microseconds since 1970.
    pub(super) begins_us: u64,
}

/// The outcome of an attempt.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) message: MessageId,
    /// The subscriber that was called.
    pub(super) subscriber: String,
    pub(super) attempt: Attempt,
    pub(super) result: AttemptResult,
}

/// Whether an attempt was successful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AttemptResult {
    Delivered,
    /// Nothing is sent to the subscriber for the time that it has asked for.
    Failed {
        retry_after: Option<Duration>,
        /// Whether there is no other attempt. The dead letter is posted.
        is_given_up: bool,
    },
    /// The subscriber wants no more notifications.
    Gone,
}

impl SubscriptionDeliveries {
    pub(super) fn new(
        subscription: Subscription,
        options: Arc<DeliveryOptions>,
        policy: RetryPolicy,
        progress: Progress,
        requires_confirmation: bool,
        now: Instant,
    ) -> Self {
        let (read_to, retries_changed) = (progress.position, progress.retries > 0);
        Self {
            subscription,
            options,
            policy,
            progress,
            waiting: VecDeque::new(),
            read_to,
            read_at: now,
            running: HashMap::new(),
            due: VecDeque::new(),
            with_retry: HashSet::new(),
            knows_retries: !retries_changed,
            requires_confirmation,
            lost_until_us: 0,
            retries_changed,
            failures_in_a_row: 0,
            is_changed: false,
            attempts: Vec::new(),
            new_retries: Vec::new(),
            ended_retries: Vec::new(),
        }
    }

    /// Returns whether anything may be sent.
    fn is_active(&self) -> bool {
        let settings = &self.subscription.settings;
        settings.state == SubscriptionState::Active && (settings.confirmed || !self.requires_confirmation)
    }

    /// Returns how many more attempts may begin now. A subscriber that has failed repeatedly gets
    /// one at a time, so that it occupies few connections.
    fn free(&self) -> usize {
        let is_failing = self.failures_in_a_row >= self.options.concurrency.max(2);
        let allowed = if self.options.ordered || is_failing { 1 } else { self.options.concurrency as usize };
        allowed.saturating_sub(self.running.len())
    }

    /// Returns whether messages of the feed may be sent, apart from the number of running attempts.
    fn may_read(&self) -> bool {
        let has_room = self.progress.retries < RETRIES_MAX && self.progress.retry_bytes < RETRY_BYTES_MAX;
        let is_held_back = self.options.ordered && self.progress.retries > 0;
        self.is_active() && has_room && !is_held_back
    }

    /// Returns the position after which the subscription needs messages; `None` if it needs none
    /// now.
    pub(super) fn wants_messages(&mut self, feed: &FeedState, now: Instant, now_us: u64) -> Option<Rank> {
        if !self.waiting.is_empty() && now.duration_since(self.read_at) >= READ_AGAIN_AFTER {
            self.waiting.clear();
            self.read_to = self.progress.position;
        }
        let is_wanted = self.may_read() && self.waiting.is_empty() && self.free() > 0;
        (is_wanted && !self.is_held(now_us) && self.read_to < feed.last).then_some(self.read_to)
    }

    /// Adds messages that were read after `after`, up to the position `to`.
    pub(super) fn add_messages(&mut self, after: Rank, to: Rank, messages: &[Arc<Message>], now: Instant) {
        if self.read_to < after || self.read_to >= to {
            return;
        }
        let from = messages.partition_point(|message| message.id.rank() <= self.read_to);
        self.waiting.extend(messages[from..].iter().cloned());
        (self.read_to, self.read_at) = (to, now);
        self.pass_empty_stretch();
    }

    /// Moves the position to the end of what was read, if no message of it is left.
    fn pass_empty_stretch(&mut self) {
        if self.waiting.is_empty() && self.progress.position < self.read_to {
            self.progress.position = self.read_to;
            self.progress.counted_to = self.progress.counted_to.max(self.read_to);
            self.is_changed = true;
        }
    }

    /// Returns how many retries the store is to be asked for; `None` if it need not be asked. What
    /// was changed before must be saved first.
    pub(super) fn wants_retries(&self, now_us: u64) -> Option<usize> {
        let is_due = self.retries_changed || self.due.is_empty() && self.progress.next_retry_us <= now_us;
        let is_wanted = self.has_waiting_retries() && is_due && self.is_active() && self.free() > 0;
        (is_wanted && !self.is_held(now_us)).then(|| self.running_retries() + self.free() + 1)
    }

    fn running_retries(&self) -> usize {
        self.running.values().flatten().count()
    }

    fn has_waiting_retries(&self) -> bool {
        self.progress.retries as usize > self.running_retries()
    }

    /// Begins no attempt of an ordered subscription before this time, in microseconds since 1970.
    pub(super) fn wait_for_lost_attempts(&mut self, lost_until_us: u64) {
        self.lost_until_us = lost_until_us;
    }

    /// Returns the time until which nothing is sent, in microseconds since 1970: the subscriber has
    /// asked to wait, or attempts of a process that has lost the lease may still run.
    fn hold_until_us(&self) -> u64 {
        self.progress.hold_until_us.max(if self.options.ordered { self.lost_until_us } else { 0 })
    }

    fn is_held(&self, now_us: u64) -> bool {
        now_us < self.hold_until_us()
    }

    /// Returns whether this message is running.
    pub(super) fn is_running(&self, message: MessageId) -> bool {
        self.running.contains_key(&message)
    }

    /// Adds the first retries of the subscription that are not running, in the order in which they
    /// are due. There are none only if the store has no others.
    pub(super) fn add_retries(&mut self, retries: Vec<Retry>, now_us: u64) {
        self.retries_changed = false;
        self.due.clear();
        let next_us = retries.first().map_or(0, |first| first.due_us);
        if retries.is_empty() {
            // Without this, wrong figures would hold back an ordered subscription for ever.
            let running = self.running.values().flatten();
            (self.progress.retries, self.progress.retry_bytes) =
                running.fold((0, 0), |(count, bytes), retry| (count + 1, bytes + retry.body_bytes()));
            if self.progress.retries == 0 {
                self.progress.next_retry_us = 0;
            }
            self.with_retry.retain(|id| self.running.contains_key(id));
            self.is_changed = true;
        }
        self.due.extend(retries.into_iter().filter(|retry| retry.due_us <= now_us));
        if next_us != self.progress.next_retry_us && next_us > 0 {
            self.progress.next_retry_us = next_us;
            self.is_changed = true;
        }
    }

    /// Returns the size of the message that [`Self::next`] looks at first, in bytes; 0 if there is
    /// none.
    pub(super) fn next_bytes(&self) -> usize {
        let next =
            self.due.front().map(|retry| &retry.message).or_else(|| self.waiting.front().map(|message| &**message));
        next.map_or(0, |message| message.body.as_msgpack().len())
    }

    /// Forgets the messages that were read and not sent, because there is no memory for them. They
    /// are read again.
    pub(super) fn unload(&mut self) {
        self.waiting.clear();
        self.read_to = self.progress.position;
        self.retries_changed |= !self.due.is_empty();
        self.due.clear();
    }

    /// Returns the next message to send, and counts it as running. `matches` decides whether the
    /// subscription wants a message. If it fails, the message stays where it is.
    pub(super) fn next<E>(
        &mut self,
        now_us: u64,
        mut matches: impl FnMut(&DeliveryOptions, &Message) -> Result<bool, E>,
    ) -> Result<Option<Delivery>, E> {
        if !self.is_active() || self.free() == 0 || self.is_held(now_us) {
            return Ok(None);
        }
        if let Some(retry) = self.due.front() {
            matches(&self.options, &retry.message)?;
            let retry = self.due.pop_front().expect("it has a first one");
            let delivery = self.delivery(Arc::new(retry.message.clone()), retry.attempts + 1, retry.due_us, now_us);
            self.running.insert(retry.message.id, Some(retry));
            return Ok(Some(delivery));
        }
        if !self.may_read() {
            return Ok(None);
        }
        while let Some(message) = self.waiting.front() {
            let is_wanted = matches(&self.options, message)?;
            let message = self.waiting.pop_front().expect("it has a first one");
            let rank = message.id.rank();
            self.progress.position = rank;
            if rank > self.progress.counted_to {
                self.progress.counted_to = rank;
                self.progress.read += 1;
            }
            self.is_changed = true;
            self.pass_empty_stretch();
            if is_wanted && !self.running.contains_key(&message.id) && !self.with_retry.contains(&message.id) {
                self.progress.in_flight.push(message.id);
                self.running.insert(message.id, None);
                return Ok(Some(self.delivery(message, 1, 0, now_us)));
            }
        }
        Ok(None)
    }

    fn delivery(&self, message: Arc<Message>, attempt: u32, due_us: u64, begins_us: u64) -> Delivery {
        Delivery { message, attempt, is_last: self.policy.delay(attempt).is_none(), due_us, begins_us }
    }

    /// Records the outcome of an attempt at a time of the store's clock. Returns why the
    /// subscription has to be disabled, if it has to be.
    pub(super) fn record(
        &mut self,
        delivery: &Delivery,
        outcome: Outcome,
        now_us: u64,
        disable_after: Duration,
    ) -> Option<String> {
        let retry = self.running.remove(&outcome.message)?;
        // What a former subscriber answers does not concern the one of today.
        let is_former = outcome.subscriber != self.subscription.settings.subscriber;
        self.is_changed = true;
        self.attempts.push((self.progress.attempts, outcome.attempt));
        self.progress.attempts += 1;
        match &retry {
            None => self.progress.in_flight.retain(|id| *id != outcome.message),
            Some(retry) => self.end_retry(retry),
        }
        if outcome.result != AttemptResult::Delivered {
            return self.record_failure(delivery, outcome.result, is_former, now_us, disable_after);
        }
        self.progress.delivered += 1;
        if !is_former {
            (self.progress.failing_since_us, self.failures_in_a_row) = (0, 0);
        }
        None
    }

    /// Ends an attempt that has not begun.
    pub(super) fn cancel(&mut self, delivery: &Delivery, now_us: u64) {
        if let Some(retry) = self.running.remove(&delivery.message.id) {
            if retry.is_some() {
                self.retries_changed = true;
            } else {
                self.progress.in_flight.retain(|id| *id != delivery.message.id);
                self.redeliver(&delivery.message, now_us);
            }
        }
    }

    fn record_failure(
        &mut self,
        delivery: &Delivery,
        result: AttemptResult,
        is_former: bool,
        now_us: u64,
        disable_after: Duration,
    ) -> Option<String> {
        if !is_former {
            self.failures_in_a_row = self.failures_in_a_row.saturating_add(1);
            if self.progress.failing_since_us == 0 {
                self.progress.failing_since_us = now_us;
            }
        }
        let (retry_after, is_given_up) = match result {
            AttemptResult::Failed { retry_after, is_given_up } => (retry_after.filter(|_| !is_former), is_given_up),
            AttemptResult::Gone | AttemptResult::Delivered => (None, false),
        };
        let retry_after = retry_after.unwrap_or_default();
        if !retry_after.is_zero() {
            let until_us = now_us.saturating_add(micros(retry_after));
            self.progress.hold_until_us = self.progress.hold_until_us.max(until_us);
        }
        if is_given_up {
            self.progress.given_up += 1;
        } else {
            let least = if delivery.attempt < ATTEMPTS_AT_ONCE_MAX { Duration::ZERO } else { PAUSE_MIN };
            let delay = self.policy.delay(delivery.attempt).unwrap_or(PAUSE_AFTER_LAST).max(least);
            self.add_retry(delivery, now_us.saturating_add(micros(with_jitter(delay))));
        }
        if is_former {
            return None;
        }
        if result == AttemptResult::Gone {
            return Some("The subscriber has answered 410 Gone.".to_owned());
        }
        let failing_for = Duration::from_micros(now_us.saturating_sub(self.progress.failing_since_us));
        let hours = failing_for.as_secs() / 3_600;
        (failing_for >= disable_after).then(|| format!("Every attempt has failed for {hours} hours."))
    }

    /// Delivers this message again, for the first time if it was never attempted. Has no effect on
    /// a message that is being delivered or has a retry.
    pub(super) fn redeliver(&mut self, message: &Arc<Message>, now_us: u64) {
        if self.running.contains_key(&message.id) || self.with_retry.contains(&message.id) {
            return;
        }
        self.add_retry(&self.delivery(message.clone(), 0, now_us, now_us), now_us);
        self.is_changed = true;
    }

    fn add_retry(&mut self, delivery: &Delivery, due_us: u64) {
        let retry = Retry { attempts: delivery.attempt, due_us, message: (*delivery.message).clone() };
        self.progress.retries += 1;
        self.progress.retry_bytes += retry.body_bytes();
        let next_us = self.progress.next_retry_us;
        self.progress.next_retry_us = if next_us == 0 { due_us } else { next_us.min(due_us) };
        self.retries_changed = true;
        self.with_retry.insert(retry.message.id);
        self.new_retries.push(retry);
    }

    fn end_retry(&mut self, retry: &Retry) {
        self.with_retry.remove(&retry.message.id);
        self.ended_retries.push((retry.message.id, retry.due_us));
        self.progress.retries = self.progress.retries.saturating_sub(1);
        self.progress.retry_bytes = self.progress.retry_bytes.saturating_sub(retry.body_bytes());
        self.retries_changed = true;
        if self.progress.retries == 0 {
            (self.progress.next_retry_us, self.retries_changed) = (0, false);
        }
    }

    /// Returns the messages that another process had in flight when it lost the lease.
    pub(super) fn abandoned(&self) -> Vec<MessageId> {
        self.progress.in_flight.iter().copied().filter(|id| !self.running.contains_key(id)).collect()
    }

    /// Delivers the abandoned messages again. Those that were not found are gone from the queue.
    pub(super) fn redeliver_abandoned(&mut self, found: &[Arc<Message>], now_us: u64) {
        let gone = self.abandoned().len().saturating_sub(found.len());
        self.progress.missed += gone as u64;
        self.progress.in_flight.retain(|id| self.running.contains_key(id));
        for message in found {
            self.redeliver(message, now_us);
        }
        self.is_changed = true;
    }

    /// Continues after this position.
    pub(super) fn seek(&mut self, to: Rank, feed: &FeedState) {
        self.progress.position = to.min(feed.last);
        self.read_to = self.progress.position;
        self.progress.counted_to = self.progress.counted_to.max(self.progress.position);
        self.waiting.clear();
        self.is_changed = true;
    }

    /// Delivers the messages after this position again.
    pub(super) fn rewind(&mut self, to: Rank, feed: &FeedState) {
        self.seek(to.min(self.progress.position), feed);
    }

    /// Forgets earlier failures, and that the subscriber has asked to wait.
    pub(super) fn forget_failures(&mut self) {
        self.failures_in_a_row = 0;
        (self.progress.failing_since_us, self.progress.hold_until_us) = (0, 0);
        self.is_changed = true;
    }

    /// Returns whether messages are read again that may have a retry which is not known.
    pub(super) fn is_behind_retries(&self) -> bool {
        self.progress.position < self.progress.counted_to && !self.knows_retries
    }

    /// Returns whether it is known which messages have a retry.
    pub(super) fn knows_retries(&self) -> bool {
        self.knows_retries
    }

    /// Does not begin these messages when they are read, because they have a retry. Everything
    /// must have been saved before they were listed.
    pub(super) fn set_retries(&mut self, with_retry: HashSet<MessageId>) {
        (self.with_retry, self.knows_retries) = (with_retry, true);
    }

    /// Notes that a request of the owner was carried out.
    pub(super) fn finish_request(&mut self, number: u64) {
        self.progress.last_request = number;
        self.is_changed = true;
    }

    /// Counts the messages that were gone before they were read, once all others were read. `feed`
    /// is what the store has returned last.
    pub(super) fn note_feed(&mut self, feed: &FeedState) {
        if self.progress.position < feed.last || !self.waiting.is_empty() || self.progress.feed_total == feed.total {
            return;
        }
        let visible = feed.total.saturating_sub(self.progress.feed_total);
        let missed = visible.saturating_sub(self.progress.read);
        self.progress.missed += missed;
        (self.progress.feed_total, self.progress.read) = (feed.total, 0);
        self.is_changed |= missed > 0;
    }

    /// Returns what is to be saved, if anything is. It counts as saved from now on; if it could not
    /// be saved, give it back with [`Self::restore_change`].
    pub(super) fn take_change(&mut self) -> Option<DeliveryChange> {
        if !std::mem::take(&mut self.is_changed) {
            return None;
        }
        Some(DeliveryChange {
            subscription: self.subscription.id,
            progress: self.progress.clone(),
            attempts: std::mem::take(&mut self.attempts),
            ended_retries: std::mem::take(&mut self.ended_retries),
            new_retries: std::mem::take(&mut self.new_retries),
        })
    }

    /// Takes back a change that could not be saved.
    pub(super) fn restore_change(&mut self, mut change: DeliveryChange) {
        change.attempts.append(&mut self.attempts);
        change.ended_retries.append(&mut self.ended_retries);
        change.new_retries.append(&mut self.new_retries);
        (self.attempts, self.ended_retries, self.new_retries) =
            (change.attempts, change.ended_retries, change.new_retries);
        self.is_changed = true;
    }

    /// Returns whether something is to be saved.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns when the subscription has something to do again, in microseconds since 1970, apart
    /// from new messages and outcomes; `None` if it waits for nothing.
    pub(super) fn next_due_us(&self, now_us: u64) -> Option<u64> {
        if !self.is_active() || self.free() == 0 {
            return None;
        }
        let hold_until_us = self.hold_until_us();
        let hold_end_us = self.is_held(now_us).then_some(hold_until_us);
        let retry_us = self.has_waiting_retries().then(|| self.progress.next_retry_us.max(hold_until_us));
        hold_end_us.into_iter().chain(retry_us).min()
    }

    /// Returns whether messages up to the end of the feed were sent or wait for a retry.
    pub(super) fn is_idle(&mut self, feed: &FeedState, now: Instant, now_us: u64) -> bool {
        let may_send = self.is_active() && !self.is_held(now_us);
        self.running.is_empty()
            && !self.is_changed
            && (self.due.is_empty() || !may_send)
            && self.wants_messages(feed, now, now_us).is_none()
            && (self.waiting.is_empty() || !self.may_read() || !may_send)
            && self.wants_retries(now_us).is_none()
    }

    /// Returns whether nothing may be sent, nothing is in flight, and nothing is to be saved.
    pub(super) fn is_at_rest(&self) -> bool {
        !self.is_active() && self.running.is_empty() && !self.is_changed
    }

    /// Returns the number of messages that wait for an attempt or are in flight; 0 if nothing may
    /// be sent.
    pub(super) fn pending(&self, feed: &FeedState) -> u64 {
        if self.is_active() { self.progress.pending(feed.total) } else { 0 }
    }

    /// Takes over changed settings.
    pub(super) fn update(&mut self, subscription: Subscription, options: Arc<DeliveryOptions>) {
        (self.subscription, self.options) = (subscription, options);
        if !self.is_active() {
            // They may have been deleted when it is active again.
            self.waiting.clear();
            self.read_to = self.progress.position;
        }
    }

    /// Takes over a retry policy.
    pub(super) fn set_policy(&mut self, policy: RetryPolicy) {
        self.policy = policy;
    }

    /// Pauses or disables the subscription in this process at once. The store follows.
    pub(super) fn stop(&mut self, state: SubscriptionState) {
        self.subscription.settings.state = state;
    }
}

/// Returns a delay that is up to a tenth longer, so that many retries do not come at once.
fn with_jitter(delay: Duration) -> Duration {
    delay.mul_f64(1.0 + fastrand::f64() / 10.0)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
