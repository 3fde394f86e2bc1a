//! Reads the feed, and begins attempts.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Deliverer, Stop, Subscribers};
use crate::push::attempt::{self, Finished};
use crate::wire::notification::is_wanted;
use sukkal_domain::{Message, Rank, SubscriptionId, SubscriptionState};

/// Number of messages that are read at a time.
const MESSAGES_PER_READ: usize = 64;
/// Maximum number of reads before outcomes are handled again.
const READS_PER_STEP: usize = 16;

impl Deliverer {
    /// Reads messages for the subscriptions that want some. Subscriptions at the same position
    /// share a read. Returns whether it has read.
    pub(super) async fn read(&mut self) -> Result<bool, Stop> {
        let mut has_read = false;
        for _ in 0..READS_PER_STEP {
            let (now, now_us, feed) = (Instant::now(), self.now_us(), self.feed);
            let wants = |id: &SubscriptionId, subscribers: &mut Subscribers| {
                subscribers.get_mut(*id)?.state.wants_messages(&feed, now, now_us)
            };
            let subscribers = &mut self.subscribers;
            let Some(after) = self.ready.iter().filter_map(|id| wants(id, subscribers)).min() else {
                break;
            };
            let page = self.deliveries.read(after, MESSAGES_PER_READ).await?;
            has_read = true;
            let messages: Vec<Arc<Message>> = page.messages.into_iter().map(Arc::new).collect();
            let last = messages.last().map(|message| message.id.rank());
            let is_end = page.is_last || messages.is_empty();
            // What the feed had when its state was read has now been read, if this is its end.
            let known_end = if feed.last == Rank::MAX { None } else { Some(feed.last) };
            let to = if is_end { last.max(known_end) } else { last };
            let Some(to) = to else {
                // There is nothing after this position. The next save tells where the feed ends.
                self.feed.last = after;
                break;
            };
            if is_end {
                self.feed.last = to;
            }
            let now = Instant::now();
            for id in &self.ready {
                if let Some(managed) = self.subscribers.get_mut(*id) {
                    managed.state.add_messages(after, to, &messages, now);
                }
            }
        }
        Ok(has_read)
    }

    /// Begins the attempts that may begin now.
    pub(super) fn begin_attempts(&mut self) {
        let now_us = self.now_us();
        self.is_short_of_memory = false;
        for id in std::mem::take(&mut self.ready) {
            let Some(managed) = self.subscribers.get_mut(id) else { continue };
            loop {
                let deliveries = &self.deliveries;
                let memory = self.context.memory.share(deliveries.queue().project());
                if memory.take(managed.state.next_bytes()).is_err() {
                    managed.state.unload();
                    self.is_short_of_memory = true;
                    break;
                }
                let next = managed.state.next(now_us, |options, message| {
                    deliveries.open(message).map(|message| is_wanted(options, &message))
                });
                match next {
                    Ok(Some(delivery)) => {
                        let (context, target) = (self.context.clone(), managed.target.clone());
                        let (deliveries, lease) = (self.deliveries.clone(), self.lease_until.subscribe());
                        self.attempts.spawn(async move {
                            let _memory = memory;
                            let outcome = attempt::run(&context, &deliveries, &target, id, &delivery, lease).await;
                            Finished { subscription: id, delivery, outcome }
                        });
                    }
                    Ok(None) => break,
                    Err(error) => {
                        let state = SubscriptionState::Paused(Some(format!("A message cannot be opened: {error}")));
                        managed.stop(state.clone());
                        self.stops.push((id, state));
                        break;
                    }
                }
            }
            if managed.state.is_changed() {
                self.changed_at.get_or_insert_with(Instant::now);
            }
        }
    }
}
