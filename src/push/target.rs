//! Whom the attempts of a subscription call.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use sukkal_domain::{AddressRules, Author, DeliveryOptions, SigningKey, Subscriber, Subscription};

/// Whom an attempt calls, and how.
pub(super) struct Target {
    /// The subscriber, or why it may not be called. The rules may be stricter than when it was set.
    pub(super) subscriber: Result<Subscriber, String>,
    /// The trust with which the subscriber is called, if it needs one.
    pub(super) trust: Option<String>,
    /// The subscriber as its owner has written it.
    pub(super) text: String,
    pub(super) options: Arc<DeliveryOptions>,
    /// The client in whose name the service posts to the queues in the options.
    pub(super) author: Option<Author>,
    pub(super) keys: Vec<SigningKey>,
    /// Canceled when the subscription is changed, stopped or deleted.
    pub(super) retired: CancellationToken,
}

impl Target {
    pub(super) fn new(subscription: &Subscription, options: Arc<DeliveryOptions>, rules: &AddressRules) -> Self {
        let settings = &subscription.settings;
        let subscriber = Subscriber::parse(&settings.subscriber, rules).map_err(|reason| reason.to_string());
        Self {
            subscriber,
            trust: settings.trust().map(str::to_owned),
            text: settings.subscriber.clone(),
            options,
            author: settings.author.clone(),
            keys: settings.keys.clone(),
            retired: CancellationToken::new(),
        }
    }

    /// Lets no further attempt begin.
    pub(super) fn retire(&self) {
        self.retired.cancel();
    }
}
