//! Loads subscriptions and their retries, and carries out what their owners ask for.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::subscribers::Managed;
use super::{Deliverer, POLICY_INTERVAL, Stop};
use crate::broker::Error;
use crate::push::subscription::SubscriptionDeliveries;
use crate::push::target::Target;
use sukkal_base::memory_budget::BudgetExceeded;
use sukkal_domain::retry_policy::PolicySetting;
use sukkal_domain::{
    DeliveryOptions, DeliveryRequest, JsonObject, MessageId, NumberedRequest, Rank, RetryPolicy, Subscription,
    SubscriptionId, SubscriptionState, SubscriptionStatus,
};
use sukkal_storage::unless_unreadable;

/// Maximum number of subscriptions that are read at a time.
const SUBSCRIPTIONS_PER_PAGE: usize = 20;
/// Maximum number of retries that are listed at a time.
const RETRIES_PER_PAGE: usize = 500;

impl Deliverer {
    /// Loads the subscriptions if they have changed, and carries out what their owners ask for.
    pub(super) async fn reload_if_changed(&mut self) -> Result<(), Stop> {
        let version = self.feed.subscriptions_version;
        let is_current = self.version == Some(version);
        if is_current && self.policy_read_at.is_some_and(|at| at.elapsed() < POLICY_INTERVAL) {
            return Ok(());
        }
        let queue_policy = self.deliveries.metadata_value("_retry_policy").await?;
        let queue_policy = queue_policy.as_ref().and_then(PolicySetting::of);
        self.policy_read_at = Some(Instant::now());
        if queue_policy != self.queue_policy {
            self.queue_policy = queue_policy;
            for managed in self.subscribers.all_mut() {
                let own = managed.target.options.retry_policy.as_ref();
                managed.state.set_policy(RetryPolicy::from_settings(own, self.queue_policy.as_ref()));
            }
        }
        if is_current {
            return Ok(());
        }
        let changed = match self.version {
            Some(known) => self.deliveries.changed_subscriptions(known).await?,
            None => None,
        };
        match changed {
            Some(changed) => self.load(changed.into_iter().collect()).await?,
            None => self.load_all().await?,
        }
        self.version = Some(version);
        Ok(())
    }

    /// Loads these subscriptions.
    async fn load(&mut self, changed: BTreeSet<SubscriptionId>) -> Result<(), Stop> {
        for id in changed {
            self.renew_if_due().await?;
            let found = self.deliveries.subscription(id).await;
            match self.unless_unreadable(id, found)?.flatten() {
                Some(found) => self.adopt(found).await?,
                None => self.forget(id),
            }
        }
        Ok(())
    }

    async fn load_all(&mut self) -> Result<(), Stop> {
        let mut gone: BTreeSet<SubscriptionId> = self.subscribers.ids().collect();
        let mut after = None;
        loop {
            self.renew_if_due().await?;
            let page = self.deliveries.subscriptions(after, SUBSCRIPTIONS_PER_PAGE).await?;
            after = page.reached;
            for found in page.subscriptions {
                gone.remove(&found.subscription.id);
                self.adopt(found).await?;
            }
            if after.is_none() {
                break;
            }
        }
        for id in gone {
            self.forget(id);
        }
        Ok(())
    }

    /// Forgets a subscription that has a record that cannot be read, so that the others are
    /// delivered.
    fn unless_unreadable<T>(&mut self, id: SubscriptionId, read: Result<T, Error>) -> Result<Option<T>, Stop> {
        match read {
            Err(Error::Store(error)) => {
                let unread = unless_unreadable(Err(error)).map_err(Error::from)?;
                self.forget(id);
                Ok(unread)
            }
            read => Ok(Some(read?)),
        }
    }

    fn forget(&mut self, id: SubscriptionId) {
        self.subscribers.remove(id);
        self.ready.remove(&id);
    }

    /// Takes over a subscription that was loaded.
    async fn adopt(&mut self, found: SubscriptionStatus) -> Result<(), Stop> {
        let SubscriptionStatus { mut subscription, progress, .. } = found;
        let id = subscription.id;
        self.ready.insert(id);
        let known = self.subscribers.get_mut(id);
        let unchanged = known.filter(|managed| managed.state.subscription.revision == subscription.revision);
        if unchanged.is_some() {
            self.redeliver_abandoned(id).await?;
            return self.carry_out_requests(id).await;
        }
        let memory = self.context.options_memory.share(self.deliveries.queue().project());
        memory.take(subscription.settings.options.as_msgpack().len()).map_err(|BudgetExceeded| Stop::NoMemory)?;
        let options = Arc::new(options_of(&subscription));
        let policy = RetryPolicy::from_settings(options.retry_policy.as_ref(), self.queue_policy.as_ref());
        let target = Arc::new(Target::new(&subscription, options.clone(), &self.context.rules));
        // From now on, the parsed options are used.
        subscription.settings.options = JsonObject::default();
        if let Some(managed) = self.subscribers.get_mut(id) {
            managed.state.set_policy(policy);
            // Attempts that wait for a connection begin again with the new settings.
            std::mem::replace(&mut managed.target, target).retire();
            managed.state.update(subscription, options);
            managed.memory = memory;
        } else {
            let requires_confirmation = self.context.requires_confirmation(&subscription.settings.subscriber);
            let now = Instant::now();
            let mut state =
                SubscriptionDeliveries::new(subscription, options, policy, progress, requires_confirmation, now);
            state.wait_for_lost_attempts(self.feed.lost_until_us);
            self.subscribers.insert(id, Managed { state, target, memory });
        }
        self.pause_if_refused(id);
        self.redeliver_abandoned(id).await?;
        self.carry_out_requests(id).await
    }

    /// Pauses a subscription whose subscriber this process may not call. Otherwise, its messages
    /// would be given up, although another process may call it.
    fn pause_if_refused(&mut self, id: SubscriptionId) {
        if let Some(managed) = self.subscribers.get_mut(id)
            && let Err(reason) = &managed.target.subscriber
            && managed.state.subscription.settings.state == SubscriptionState::Active
        {
            let reason = format!("The process that delivers refuses the subscriber: {reason}.");
            let state = SubscriptionState::Paused(Some(reason));
            managed.stop(state.clone());
            self.stops.push((id, state));
        }
    }

    /// Delivers the messages again whose first attempt an earlier holder has begun.
    async fn redeliver_abandoned(&mut self, id: SubscriptionId) -> Result<(), Stop> {
        let abandoned = self.subscribers.get(id).map(|managed| managed.state.abandoned()).unwrap_or_default();
        if !abandoned.is_empty() {
            let found: Vec<_> = self.deliveries.get(&abandoned).await?.into_iter().map(Arc::new).collect();
            let now_us = self.now_us();
            if let Some(managed) = self.subscribers.get_mut(id) {
                managed.state.redeliver_abandoned(&found, now_us);
            }
        }
        Ok(())
    }

    async fn carry_out_requests(&mut self, id: SubscriptionId) -> Result<(), Stop> {
        let Some(managed) = self.subscribers.get(id) else {
            return Ok(());
        };
        let last = managed.state.progress.last_request;
        let requests = managed.state.subscription.settings.requests.clone();
        let requests: Vec<_> = requests.into_iter().filter(|request| request.number > last).collect();
        if requests.is_empty() && !managed.state.is_behind_retries() {
            return Ok(());
        }
        if !managed.state.knows_retries() {
            // They are listed after what was changed is saved, so that the list has all of them.
            self.save().await?;
            let listed = self.all_retries(id).await;
            let Some(with_retry) = self.unless_unreadable(id, listed)? else { return Ok(()) };
            if let Some(managed) = self.subscribers.get_mut(id) {
                managed.state.set_retries(with_retry);
            }
        }
        for NumberedRequest { number, request } in requests {
            let messages = match &request {
                DeliveryRequest::Seek(_) | DeliveryRequest::Rewind(_) | DeliveryRequest::Restart => Vec::new(),
                DeliveryRequest::Redeliver(ids) => {
                    let ids: Vec<_> = ids.iter().copied().map(MessageId::from_bits).collect();
                    self.deliveries.get(&ids).await?
                }
            };
            let (now_us, feed) = (self.now_us(), self.feed);
            let Some(managed) = self.subscribers.get_mut(id) else {
                return Ok(());
            };
            let position = |micros| Rank::new(micros).unwrap_or(Rank::MAX);
            match request {
                DeliveryRequest::Seek(micros) => managed.state.seek(position(micros), &feed),
                DeliveryRequest::Rewind(micros) => managed.state.rewind(position(micros), &feed),
                DeliveryRequest::Restart => managed.state.forget_failures(),
                DeliveryRequest::Redeliver(_) => {}
            }
            for message in messages {
                managed.state.redeliver(&Arc::new(message), now_us);
            }
            managed.state.finish_request(number);
        }
        Ok(())
    }

    /// Returns the messages that have a retry.
    async fn all_retries(&self, id: SubscriptionId) -> Result<HashSet<MessageId>, Error> {
        let (mut messages, mut after) = (HashSet::new(), None);
        loop {
            let page = self.deliveries.retries(id, after, RETRIES_PER_PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(messages);
            };
            after = Some((last.due_us, last.message.id));
            messages.extend(page.iter().map(|retry| retry.message.id));
        }
    }

    /// Loads retries that are due.
    pub(super) async fn load_retries(&mut self) -> Result<(), Stop> {
        let now_us = self.now_us();
        let wanting: Vec<(SubscriptionId, usize)> = self
            .ready
            .iter()
            .filter_map(|id| Some((*id, self.subscribers.get(*id)?.state.wants_retries(now_us)?)))
            .collect();
        if wanting.iter().any(|(id, _)| self.subscribers.get(*id).is_some_and(|managed| managed.state.is_changed())) {
            self.save().await?;
        }
        for (id, limit) in wanting {
            self.renew_if_due().await?;
            // A page has fewer if they are large, and all of it may be running.
            let (mut retries, mut after) = (Vec::new(), None);
            while retries.is_empty() {
                let page = self.deliveries.retries(id, after, limit).await;
                let page = self.unless_unreadable(id, page)?.unwrap_or_default();
                let Some(last) = page.last() else { break };
                after = Some((last.due_us, last.message.id));
                let Some(managed) = self.subscribers.get(id) else { break };
                retries.extend(page.into_iter().filter(|retry| !managed.state.is_running(retry.message.id)));
            }
            if let Some(managed) = self.subscribers.get_mut(id) {
                managed.state.add_retries(retries, now_us);
            }
        }
        Ok(())
    }
}

/// Returns the options of a subscription. The API accepts only valid ones.
fn options_of(subscription: &Subscription) -> DeliveryOptions {
    let parsed = DeliveryOptions::parse(&subscription.settings.options);
    parsed.unwrap_or_else(|_| DeliveryOptions::parse(&JsonObject::default()).expect("no option is required"))
}
