//! Changes of subscriptions. Each reads the subscription, changes it, and stores it unless another
//! request has changed it since; then it begins again.

use serde_json::{Map, Value};

use super::lookup::{ATTEMPTS_MAX, no_subscription, now_s};
use super::mail;
use crate::auth::Caller;
use crate::broker::access::Access;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::mail_rules::InvalidMail;
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::{
    ConfirmationKind, DeliveryOptions, DeliveryRequest, NumberedRequest, Progress, QueueId, SigningKey, Subscriber,
    SubscriptionDraft, SubscriptionId, SubscriptionSettings, SubscriptionState, SubscriptionStatus, Warning,
};
use sukkal_storage::{SubscriptionChange, SubscriptionUpdate};

/// Time for which a replaced key signs notifications too, in seconds.
const ROTATION_S: u64 = 24 * 3600;
/// Maximum number of keys of a subscription.
const KEYS_MAX: usize = 2;
/// Maximum number of requests that the deliverer has not carried out yet.
const REQUESTS_MAX: usize = 16;

/// Who says that a subscriber wants its subscription or does not want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmedBy {
    /// A client of the project, such as the owner of the subscription.
    Client,
    /// The holder of a pre-signed URL for this confirmation alone, which was sent to the
    /// subscriber.
    Subscriber,
}

/// The part of a subscription that a change replaces.
pub(super) struct Changed {
    pub(super) settings: SubscriptionSettings,
    /// The new time to live in seconds, if it changes.
    pub(super) ttl_s: Option<u64>,
}

impl Changed {
    pub(super) fn settings(settings: SubscriptionSettings) -> Self {
        Self { settings, ttl_s: None }
    }
}

impl Broker {
    /// Changes the subscriber, the time to live, the options and the key of a subscription, as far
    /// as the fields have them. If confirmations are required, a new subscriber must confirm.
    pub async fn update_subscription(
        &self,
        caller: &Caller,
        queue: QueueId,
        id: &str,
        fields: Map<String, Value>,
    ) -> Result<(), Error> {
        let access = self.store.authorize(caller, Action::UpdateSubscription, &queue)?;
        let now_s = now_s();
        let draft = SubscriptionDraft::parse_change(&fields, &self.push.addresses, now_s)?;
        if draft.is_empty() {
            return Err(Error::NoChange);
        }
        let mut author = None;
        if let Some(options) = &draft.options {
            let parsed = DeliveryOptions::parse(options).map_err(InvalidSubscription::from)?;
            parsed.check_for(queue.name()).map_err(InvalidSubscription::from)?;
            author = self.authorize_targets(caller, &parsed)?;
        }
        if draft.subscriber.as_ref().is_some_and(Subscriber::needs_trust) {
            return Err(InvalidSubscription::TrustChange.into());
        }
        if let Some(subscriber) = &draft.subscriber {
            self.name_check.check(subscriber, &self.push.addresses).await?;
        }
        let (requires_confirmation, ttl_s) = (self.push.require_confirmation, draft.ttl_s);
        let (has_subscriber, mail_rules) = (draft.subscriber.is_some(), self.mail.clone());
        let change = move |current: &SubscriptionStatus| {
            let mut settings = current.subscription.settings.clone();
            // The owner of the trust has chosen whom the service calls with it, and how.
            if settings.trust().is_some() {
                return Err(InvalidSubscription::TrustChange.into());
            }
            if let Some(subscriber) = &draft.subscriber {
                mail::check_change(&settings.subscriber, subscriber)?;
                if subscriber.as_str() != settings.subscriber {
                    add_request(&mut settings, &current.progress, DeliveryRequest::Restart)?;
                }
                settings.confirmed &= !requires_confirmation || subscriber.as_str() == settings.subscriber;
                subscriber.as_str().clone_into(&mut settings.subscriber);
            }
            if let Some(options) = &draft.options {
                settings.options.clone_from(options);
                settings.author.clone_from(&author);
                let parsed = DeliveryOptions::parse(options).map_err(InvalidSubscription::from)?;
                mail::check(mail_rules.as_ref(), &settings.subscriber, &parsed)?;
            }
            match draft.key(&settings.options)? {
                Some(key) => rotate(&mut settings.keys, key, now_s),
                None => check_algorithm(&settings)?,
            }
            Ok(Changed { settings, ttl_s: draft.ttl_s })
        };
        let changed = self.change_subscription(&access, queue.clone(), id, change).await?.subscription;
        if has_subscriber && !changed.settings.confirmed {
            let valid_s = ttl_s.unwrap_or(changed.ttl_s);
            let kind = ConfirmationKind::Subscription;
            self.request_confirmation(&queue, changed.id, &changed.settings, valid_s, kind);
        }
        Ok(())
    }

    /// Stores whether the subscriber has confirmed the subscription. If the subscriber must
    /// confirm, only messages after the confirmation are delivered. Returns a warning if a
    /// refusal has no effect.
    pub async fn confirm_subscription(
        &self,
        caller: &Caller,
        queue: QueueId,
        id: &str,
        confirmed: bool,
        by: ConfirmedBy,
    ) -> Result<Option<Warning>, Error> {
        let access = self.store.authorize(caller, Action::ConfirmSubscription, &queue)?;
        let may_begin = confirmed && (self.push.require_confirmation || self.mail.is_some());
        let now = if may_begin { Some(access.admit().await?.queue_status(&queue).await?.position()) } else { None };
        let this = self.clone();
        let change = move |current: &SubscriptionStatus| {
            let mut settings = current.subscription.settings.clone();
            let begins = confirmed && !settings.confirmed;
            if begins
                && by != ConfirmedBy::Subscriber
                && mail::recipients_must_confirm(this.mail.as_ref(), &settings.subscriber)
            {
                return Err(InvalidSubscription::from(InvalidMail::ConfirmedByOther).into());
            }
            if let Some(now) = now.filter(|_| begins && this.requires_confirmation(&settings.subscriber)) {
                add_request(&mut settings, &current.progress, DeliveryRequest::Seek(now.micros()))?;
            }
            settings.confirmed = confirmed;
            Ok(Changed::settings(settings))
        };
        let changed = self.change_subscription(&access, queue.clone(), id, change).await?.subscription;
        if !confirmed {
            let (valid_s, kind) = (self.limits.default_subscription_ttl.into(), ConfirmationKind::Unsubscription);
            self.request_confirmation(&queue, changed.id, &changed.settings, valid_s, kind);
        }
        let has_effect = confirmed || self.requires_confirmation(&changed.settings.subscriber);
        Ok((!has_effect).then_some(Warning::ConfirmationNotRequired))
    }

    /// Pauses the subscription: its subscriber gets no messages until it is resumed.
    pub async fn pause_subscription(&self, caller: &Caller, queue: QueueId, id: &str) -> Result<(), Error> {
        let access = self.store.authorize(caller, Action::PauseSubscription, &queue)?;
        let change = |current: &SubscriptionStatus| {
            let mut settings = current.subscription.settings.clone();
            match settings.state {
                SubscriptionState::Active => settings.state = SubscriptionState::Paused(None),
                SubscriptionState::Paused(_) => {}
                SubscriptionState::Disabled(_) => {
                    let text = "the subscription is disabled, so its subscriber gets no messages";
                    return Err(Error::Conflict(text.to_owned()));
                }
            }
            Ok(Changed::settings(settings))
        };
        self.change_subscription(&access, queue, id, change).await.map(drop)
    }

    /// Resumes a subscription that is paused or disabled, or whose subscriber has asked to wait.
    /// Fails if it is not confirmed, but must be.
    pub async fn resume_subscription(&self, caller: &Caller, queue: QueueId, id: &str) -> Result<(), Error> {
        let access = self.store.authorize(caller, Action::ResumeSubscription, &queue)?;
        let change = |current: &SubscriptionStatus| {
            check_confirmed(current)?;
            let mut settings = current.subscription.settings.clone();
            if settings.state != SubscriptionState::Active || current.held_until_us.is_some() {
                settings.state = SubscriptionState::Active;
                add_request(&mut settings, &current.progress, DeliveryRequest::Restart)?;
            }
            Ok(Changed::settings(settings))
        };
        self.change_subscription(&access, queue, id, change).await.map(drop)
    }

    /// Applies a change to the subscription, and returns it with its new settings. If another
    /// request changes it meanwhile, `change` is called again with the new one.
    pub(super) async fn change_subscription(
        &self,
        access: &Access,
        queue: QueueId,
        id: &str,
        change: impl Fn(&SubscriptionStatus) -> Result<Changed, Error> + Send + Sync + 'static,
    ) -> Result<SubscriptionStatus, Error> {
        let store = access.admit().await?;
        let (missing, id) = (no_subscription(id), SubscriptionId::parse_or_unknown(id));
        let this = self.clone();
        self.run_to_completion(async move {
            for _ in 0..ATTEMPTS_MAX {
                let found = store.get_subscription(&queue, id).await?;
                if found.is_none() && this.connected.get(&queue, id).is_some() {
                    let text = "the subscription belongs to a WebSocket, whose client can only delete it";
                    return Err(Error::Conflict(text.to_owned()));
                }
                let Some(mut found) = found else { return Err(missing) };
                found.awaits_confirmation = this.awaits_confirmation(&found.subscription);
                let Changed { settings, ttl_s } = change(&found)?;
                if settings == found.subscription.settings && ttl_s.is_none() {
                    return Ok(found);
                }
                let changed = SubscriptionChange { last_known_revision: found.subscription.revision, settings, ttl_s };
                match store.update_subscription(&queue, id, &changed).await? {
                    SubscriptionUpdate::Done => {
                        found.subscription.settings = changed.settings;
                        return Ok(found);
                    }
                    SubscriptionUpdate::Stale => {}
                    SubscriptionUpdate::SubscriberTaken(_) => return Err(Error::subscriber_taken()),
                }
            }
            Err(sukkal_storage::Error::Unavailable(format!("subscription {id} changes too often")).into())
        })
        .await
    }
}

/// Succeeds unless nothing is sent before the subscriber has confirmed the subscription.
pub(super) fn check_confirmed(status: &SubscriptionStatus) -> Result<(), Error> {
    if status.awaits_confirmation {
        let text = "the subscription is not confirmed; its subscriber gets no messages before it confirms";
        return Err(Error::Conflict(text.to_owned()));
    }
    Ok(())
}

/// Makes `key` the first key. The former first key signs too for a while.
fn rotate(keys: &mut Vec<SigningKey>, key: SigningKey, now_s: u64) {
    if keys.first().is_some_and(|newest| newest.bytes == key.bytes && newest.algorithm == key.algorithm) {
        return;
    }
    keys.truncate(KEYS_MAX - 1);
    if let Some(former) = keys.first_mut() {
        former.until_s = Some(now_s + ROTATION_S);
    }
    keys.insert(0, key);
}

/// Succeeds if the newest key is one for the algorithm that the options name.
fn check_algorithm(settings: &SubscriptionSettings) -> Result<(), Error> {
    let option = DeliveryOptions::parse(&settings.options).map_err(InvalidSubscription::from)?.signature;
    match settings.keys.first() {
        Some(key) if key.algorithm != option => {
            Err(InvalidSubscription::Algorithm { option, key: key.algorithm }.into())
        }
        _ => Ok(()),
    }
}

/// Adds a request to those that the deliverer has not carried out yet.
pub(super) fn add_request(
    settings: &mut SubscriptionSettings,
    progress: &Progress,
    request: DeliveryRequest,
) -> Result<(), Error> {
    let last = settings.requests.last().map_or(0, |last| last.number).max(progress.last_request);
    settings.requests.retain(|pending| pending.number > progress.last_request);
    if settings.requests.len() >= REQUESTS_MAX {
        return Err(Error::Conflict(format!(
            "the subscription has {REQUESTS_MAX} requests that are not carried out yet, which is the maximum; try again later"
        )));
    }
    settings.requests.push(NumberedRequest { number: last + 1, request });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sukkal_domain::{JsonObject, SignatureAlgorithm};

    #[test]
    fn a_new_key_signs_first_and_the_former_one_for_another_day() {
        let [first, second, third] = [(); 3].map(|()| SigningKey::random(SignatureAlgorithm::HmacSha256));
        let mut keys = vec![first.clone()];

        rotate(&mut keys, second.clone(), 1_000);
        let until = |key: &SigningKey, until_s| SigningKey { until_s: Some(until_s), ..key.clone() };
        assert_eq!(keys, [second.clone(), until(&first, 87_400)]);
        rotate(&mut keys, second.clone(), 2_000);
        assert_eq!(keys, [second.clone(), until(&first, 87_400)], "the same key again changes nothing");
        rotate(&mut keys, third.clone(), 3_000);
        assert_eq!(keys, [third, until(&second, 89_400)]);
    }

    #[test]
    fn requests_are_numbered_and_dropped_when_they_are_carried_out() {
        let mut settings = SubscriptionSettings::new(String::new(), JsonObject::default());
        let mut progress = Progress::default();
        let numbers = |settings: &SubscriptionSettings| {
            settings.requests.iter().map(|request| request.number).collect::<Vec<_>>()
        };
        for micros in 0..16 {
            add_request(&mut settings, &progress, DeliveryRequest::Seek(micros)).unwrap();
        }

        assert!(matches!(add_request(&mut settings, &progress, DeliveryRequest::Seek(99)), Err(Error::Conflict(_))));
        assert_eq!(numbers(&settings), (1..=16).collect::<Vec<_>>());
        progress.last_request = 15;
        add_request(&mut settings, &progress, DeliveryRequest::Seek(16)).unwrap();
        assert_eq!(numbers(&settings), [16, 17]);
        progress.last_request = 17;
        add_request(&mut settings, &progress, DeliveryRequest::Seek(17)).unwrap();
        assert_eq!(numbers(&settings), [18], "a number is never used twice");
    }
}
