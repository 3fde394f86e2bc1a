//! New subscriptions.

use serde_json::{Map, Value};

use super::lookup::{ATTEMPTS_MAX, check_since, now_s};
use super::mail;
use crate::auth::Caller;
use crate::broker::access::AdmittedStore;
use crate::broker::messages::Since;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::{
    ConfirmationKind, DeliveryOptions, Metadata, NewSubscription, QueueId, Quota, Rank, Secret, SigningKey,
    Subscription, SubscriptionDraft, SubscriptionId, SubscriptionSettings, Warning,
};
use sukkal_storage::SubscriptionCreation;

/// A request for a new subscription.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SubscriptionRequest {
    /// What the client has sent.
    pub fields: Map<String, Value>,
    /// Only messages from this time on are delivered; `None` for those after the request.
    pub since: Option<Since>,
    /// The token of Keystone that the request has, for a trust.
    pub user_token: Secret,
}

/// The outcome of a request for a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Subscribed {
    /// The subscription is new.
    Created {
        /// The id of the subscription.
        id: SubscriptionId,
        /// Its key, which is shown only now.
        key: SigningKey,
        /// Whether the subscriber has to confirm the subscription first.
        awaits_confirmation: bool,
    },
    /// The subscription existed, and the subscriber has not confirmed it.
    Unconfirmed {
        /// The id of the subscription.
        id: SubscriptionId,
        /// Whether the request names options, a key, a start or a time to live that the
        /// subscription does not have.
        differs: bool,
    },
    /// The subscription existed, and the subscriber has confirmed it.
    Confirmed,
}

impl Subscribed {
    /// Returns warnings about parts of the request that have no effect. `has_since` says whether
    /// the request asks for earlier messages.
    #[must_use]
    pub fn warnings(&self, has_since: bool) -> Vec<Warning> {
        match self {
            Self::Created { awaits_confirmation: true, .. } if has_since => vec![Warning::SinceIgnored],
            Self::Unconfirmed { differs: true, .. } => vec![Warning::SubscriptionUnchanged],
            Self::Created { .. } | Self::Unconfirmed { .. } | Self::Confirmed => Vec::new(),
        }
    }
}

impl Broker {
    /// Creates a subscription of the queue. Creates the queue first if it does not exist. A refused
    /// request creates neither.
    pub async fn create_subscription(
        &self,
        caller: &Caller,
        queue: QueueId,
        request: SubscriptionRequest,
    ) -> Result<Subscribed, Error> {
        let access = self.store.authorize(caller, Action::CreateSubscription, &queue)?;
        let draft = SubscriptionDraft::parse_new(&request.fields, &self.push.addresses, now_s())?;
        request.since.map_or(Ok(()), check_since)?;
        let subscriber = draft.subscriber.as_ref().ok_or(InvalidSubscription::NoSubscriber)?;
        self.name_check.check(subscriber, &self.push.addresses).await?;
        let mut options = draft.options.clone().unwrap_or_default();
        let parsed = DeliveryOptions::parse(&options).map_err(InvalidSubscription::from)?;
        parsed.check_for(queue.name()).map_err(InvalidSubscription::from)?;
        mail::check(self.mail.as_ref(), subscriber.as_str(), &parsed)?;
        let author = self.authorize_targets(caller, &parsed)?;
        let key = draft.key(&options)?.unwrap_or_else(|| SigningKey::random(parsed.signature));
        let ttl_s = draft.ttl_s.unwrap_or(self.limits.default_subscription_ttl.into());
        let reached = self.reached_subscriptions(queue.project()).await;
        if reached.is_none() {
            self.check_new_queue(caller, &access.admit().await?, &queue).await?;
        }
        let trust = self.create_trust(caller, &request.user_token, subscriber, &mut options, ttl_s).await?;
        let new = NewSubscription {
            id: SubscriptionId::random(),
            ttl_s,
            after: match request.since {
                None | Some(Since::Now) => None,
                Some(Since::Time(micros)) => Some(Rank::new(micros).unwrap_or(Rank::MAX).previous()),
            },
            settings: SubscriptionSettings {
                keys: vec![key],
                author,
                ..SubscriptionSettings::new(subscriber.as_str().to_owned(), options)
            },
        };
        let this = self.clone();
        self.run_to_completion(async move {
            let outcome = match access.admit().await {
                Ok(store) => this.store_subscription(&store, &queue, (new, &draft), reached).await,
                Err(error) => Err(error.into()),
            };
            if let Some(trust) = trust
                && !matches!(outcome, Ok(Subscribed::Created { .. }))
            {
                this.delete_trust(trust);
            }
            outcome
        })
        .await
    }

    /// Stores a subscription of this draft, or finds the existing one of its subscriber. `reached`
    /// is the quota of the project if it has reached it, so that it gets no new subscription.
    async fn store_subscription(
        &self,
        store: &AdmittedStore,
        queue: &QueueId,
        (new, draft): (NewSubscription, &SubscriptionDraft),
        reached: Option<u64>,
    ) -> Result<Subscribed, Error> {
        let count_max = if reached.is_some() { 0 } else { self.push.max_subscriptions_per_queue };
        for _ in 0..ATTEMPTS_MAX {
            match store.create_subscription(queue, &new, count_max).await? {
                SubscriptionCreation::Created => {
                    self.subscriptions_changed(queue.project());
                    self.request_confirmation(queue, new.id, &new.settings, new.ttl_s, ConfirmationKind::Subscription);
                    let awaits_confirmation = self.requires_confirmation(&new.settings.subscriber);
                    let key = new.settings.keys.into_iter().next().expect("a new subscription has a key");
                    return Ok(Subscribed::Created { id: new.id, key, awaits_confirmation });
                }
                SubscriptionCreation::Exists(existing) if existing.settings.confirmed => {
                    return Ok(Subscribed::Confirmed);
                }
                SubscriptionCreation::Exists(Subscription { id, settings, ttl_s, .. }) => {
                    self.request_confirmation(queue, id, &settings, ttl_s, ConfirmationKind::Subscription);
                    let has_other_options = draft.options.as_ref().is_some_and(|options| {
                        DeliveryOptions::parse(options) != DeliveryOptions::parse(&settings.options)
                    });
                    let has_other_key = draft.key(&settings.options)?.is_some_and(|key| !settings.keys.contains(&key));
                    let differs = has_other_options
                        || has_other_key
                        || new.after.is_some()
                        || draft.ttl_s.is_some_and(|wanted_s| wanted_s != ttl_s);
                    return Ok(Subscribed::Unconfirmed { id, differs });
                }
                SubscriptionCreation::TooMany | SubscriptionCreation::NoQueue if reached.is_some() => {
                    let (quota, max) = (Quota::Subscriptions, reached.unwrap_or_default());
                    return Err(Error::QuotaExceeded { quota, max, advice: "delete subscriptions" });
                }
                SubscriptionCreation::TooMany => {
                    return Err(Error::Limit(format!(
                        "the {} {} has {count_max} subscriptions, which is the maximum; delete one of them first",
                        queue.name().kind().noun(),
                        queue.name()
                    )));
                }
                SubscriptionCreation::NoQueue => {
                    store.create_queue(queue, &Metadata::default()).await?;
                }
            }
        }
        Err(sukkal_storage::Error::Unavailable(format!("queue {queue} is deleted too often")).into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::auth::Client;
    use crate::broker::subscriptions::ConfirmedBy;
    use crate::broker::test_options::{limits, push_config};
    use crate::observability::metrics::Metrics;
    use sukkal_domain::{AddressRules, ConfirmationRequest, DeliveryRequest, ProjectId, PushConfig};
    use sukkal_storage::embedded::EmbeddedStore;

    fn broker(require_confirmation: bool) -> Broker {
        let addresses = AddressRules::new(Vec::new(), vec!["80".parse().unwrap()], vec!["http".to_owned()]);
        let push = PushConfig { require_confirmation, addresses, ..push_config() };
        Broker::new(Arc::new(EmbeddedStore::in_memory().unwrap()), limits(), push, None, Arc::new(Metrics::default()))
    }

    fn caller() -> Caller {
        Caller::Client(Client::of_test("p", &[]))
    }

    fn queue() -> QueueId {
        QueueId::new(ProjectId::new("p").unwrap(), "q".parse().unwrap()).unwrap()
    }

    async fn subscribe(broker: &Broker) -> Subscribed {
        let Value::Object(fields) = json!({"subscriber": "http://1.1.1.1", "ttl": 600, "options": {"a": 1}}) else {
            panic!("not an object");
        };
        broker
            .create_subscription(&caller(), queue(), SubscriptionRequest { fields, ..SubscriptionRequest::default() })
            .await
            .unwrap()
    }

    async fn new_subscription(broker: &Broker) -> SubscriptionId {
        match subscribe(broker).await {
            Subscribed::Created { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    async fn confirm(broker: &Broker, id: SubscriptionId, confirmed: bool) {
        let by = ConfirmedBy::Client;
        broker.confirm_subscription(&caller(), queue(), &id.to_string(), confirmed, by).await.unwrap();
    }

    #[tokio::test]
    async fn a_confirmation_is_sent_until_the_subscriber_confirms_and_when_it_leaves() {
        let broker = broker(true);
        let mut sent = broker.take_confirmations().unwrap();
        assert!(broker.take_confirmations().is_none());
        let id = new_subscription(&broker).await;
        let ConfirmationRequest { subscription, subscriber, options, keys, kind, valid_s, .. } =
            sent.try_recv().unwrap();
        assert_eq!(
            (subscription, subscriber.as_str(), options.get("a"), keys.len()),
            (id, "http://1.1.1.1", Some(json!(1)), 1)
        );
        assert_eq!((kind, valid_s), (ConfirmationKind::Subscription, 600));

        assert_eq!(subscribe(&broker).await, Subscribed::Unconfirmed { id, differs: false });
        assert_eq!(sent.try_recv().unwrap().kind, ConfirmationKind::Subscription);
        confirm(&broker, id, true).await;
        assert_eq!(subscribe(&broker).await, Subscribed::Confirmed);
        assert!(sent.try_recv().is_err(), "a confirmed subscriber needs no confirmation");

        confirm(&broker, id, false).await;
        let end = sent.try_recv().unwrap();
        let valid_s = limits().default_subscription_ttl.into();
        assert_eq!((end.kind, end.valid_s), (ConfirmationKind::Unsubscription, valid_s));
    }

    #[tokio::test]
    async fn only_messages_after_a_confirmation_are_delivered_if_it_is_required() {
        for is_required in [true, false] {
            let broker = broker(is_required);
            let id = new_subscription(&broker).await;
            for _ in 0..2 {
                confirm(&broker, id, true).await;
            }

            let found = broker.get_subscription(&caller(), &queue(), &id.to_string()).await.unwrap();

            let requests = found.subscription.settings.requests;
            assert_eq!(requests.len(), usize::from(is_required), "{requests:?}");
            assert!(requests.iter().all(|one| one.number == 1 && matches!(one.request, DeliveryRequest::Seek(_))));
        }
    }

    #[tokio::test]
    async fn without_the_option_no_confirmation_is_sent() {
        let broker = broker(false);
        let mut sent = broker.take_confirmations().unwrap();

        let id = new_subscription(&broker).await;
        confirm(&broker, id, false).await;

        assert!(sent.try_recv().is_err());
    }
}
