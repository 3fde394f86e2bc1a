//! Subscriptions whose messages are sent by mail: what the operator allows, and who must confirm.

use crate::broker::{Broker, Error};
use sukkal_domain::mail_rules::InvalidMail;
use sukkal_domain::subscription_draft::InvalidSubscription;
use sukkal_domain::{DeliveryOptions, MailRules, MailTo, Subscriber, Subscription};

impl Broker {
    /// Returns whether a subscriber gets messages only after it has confirmed its subscription.
    pub(super) fn requires_confirmation(&self, subscriber: &str) -> bool {
        self.push.require_confirmation || recipients_must_confirm(self.mail.as_ref(), subscriber)
    }

    /// Returns whether nothing is sent because the subscriber has not confirmed the subscription.
    pub(super) fn awaits_confirmation(&self, subscription: &Subscription) -> bool {
        let settings = &subscription.settings;
        !settings.confirmed && self.requires_confirmation(&settings.subscriber)
    }
}

/// Returns whether only the recipients of mails can confirm, by the link in a mail to them.
/// Otherwise, clients could send mails to people who do not want them.
pub(super) fn recipients_must_confirm(rules: Option<&MailRules>, subscriber: &str) -> bool {
    rules.is_some_and(|rules| rules.recipients_must_confirm(subscriber))
}

/// Succeeds if a subscription may have this subscriber with these options.
pub(super) fn check(rules: Option<&MailRules>, subscriber: &str, options: &DeliveryOptions) -> Result<(), Error> {
    let mailto = MailTo::of_uri(subscriber).map(MailTo::parse);
    match (rules, mailto) {
        (Some(rules), Some(Ok(mailto))) => Ok(rules.check(&mailto, options).map_err(InvalidSubscription::from)?),
        _ => Ok(()),
    }
}

/// Succeeds if a subscription may get this new subscriber. A mail address can neither come nor go:
/// otherwise, the link in a mail to one recipient would confirm for another one.
pub(super) fn check_change(current: &str, new: &Subscriber) -> Result<(), Error> {
    let has_mail = new.mail().is_some() || MailTo::of_uri(current).is_some();
    if has_mail && new.as_str() != current {
        return Err(InvalidSubscription::from(InvalidMail::Change).into());
    }
    Ok(())
}
