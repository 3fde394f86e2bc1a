//! The rules for mails to subscribers: who may send them, and who must confirm before. Clients
//! choose the recipients, but the mails come from the operator's server. Without rules, clients
//! could send mails to anybody, in the name of anybody.

use lettre::message::Mailbox;
use serde_json::Value;
use thiserror::Error;

use super::DeliveryOptions;
use super::mail_address::{AddressPattern, ENCODED_WORD, parse_address};
use super::mailto::{MailTo, SUBJECT_CHARS_MAX, is_subject};

/// The rules for mails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailRules {
    sender: Mailbox,
    allowed_senders: Vec<AddressPattern>,
    trusted_recipients: Vec<AddressPattern>,
}

/// Reasons for which mails of a subscription are refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidMail {
    /// The sender is not a mail address.
    #[error("the option from must be a mail address such as {0:?}")]
    Sender(String),
    /// The sender is not allowed.
    #[error(
        "the option from is not allowed; it may be {0:?}, and the operator can allow others by allowed_senders of [mail]"
    )]
    SenderNotAllowed(String),
    /// The subject is not accepted.
    #[error(
        "the option subject must be a string of one line and at most {SUBJECT_CHARS_MAX} characters, without {ENCODED_WORD:?}"
    )]
    Subject,
    /// One of several recipients would confirm for the others.
    #[error(
        "subscriber has several mail addresses; create a subscription for each of them, because each recipient confirms its own"
    )]
    SeveralRecipients,
    /// The address of a subscription changes.
    #[error("a mail address of a subscription cannot be changed; delete it and create another one")]
    Change,
    /// Somebody else confirms for a recipient.
    #[error("only the recipient can confirm this subscription, with the link in the mail that was sent to it")]
    ConfirmedByOther,
}

/// The sender and the subject of a mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailHead {
    /// The sender.
    pub from: Mailbox,
    /// The subject, if the subscription has one.
    pub subject: Option<String>,
}

impl MailRules {
    pub(super) fn new(
        sender: Mailbox,
        allowed_senders: Vec<AddressPattern>,
        trusted_recipients: Vec<AddressPattern>,
    ) -> Self {
        Self { sender, allowed_senders, trusted_recipients }
    }

    /// Returns the sender of mails that name no other one.
    #[must_use]
    pub fn sender(&self) -> &Mailbox {
        &self.sender
    }

    /// Returns whether the URI of a subscriber has recipients that must confirm, by the link in a
    /// mail to them.
    #[must_use]
    pub fn recipients_must_confirm(&self, subscriber: &str) -> bool {
        let mailto = MailTo::of_uri(subscriber).map(MailTo::parse);
        mailto.is_some_and(|mailto| !mailto.is_ok_and(|mailto| self.trusts(&mailto)))
    }

    /// Succeeds if a subscription may have these recipients with these options.
    pub fn check(&self, mailto: &MailTo, options: &DeliveryOptions) -> Result<(), InvalidMail> {
        if mailto.recipients.len() > 1 && !self.trusts(mailto) {
            return Err(InvalidMail::SeveralRecipients);
        }
        self.head(mailto, options).map(drop)
    }

    /// Returns the head of the mails to these recipients with these options.
    pub fn head(&self, mailto: &MailTo, options: &DeliveryOptions) -> Result<MailHead, InvalidMail> {
        let from = options.from.as_ref().map_or_else(|| Ok(self.sender.clone()), |from| self.allowed_sender(from))?;
        let option = options.subject.as_ref().map(|subject| {
            let text = subject.as_str().filter(|text| is_subject(text)).ok_or(InvalidMail::Subject)?;
            Ok(text.to_owned())
        });
        let option = option.transpose()?.filter(|subject| !subject.is_empty());
        Ok(MailHead { from, subject: mailto.subject.clone().or(option) })
    }

    /// Returns the sender that a subscription names. It has no display name, with which a client
    /// could pretend to be somebody else.
    fn allowed_sender(&self, from: &Value) -> Result<Mailbox, InvalidMail> {
        let own = &self.sender.email;
        let address = from.as_str().and_then(parse_address).ok_or_else(|| InvalidMail::Sender(own.to_string()))?;
        if AsRef::<str>::as_ref(&address).eq_ignore_ascii_case(own.as_ref()) {
            Ok(self.sender.clone())
        } else if self.allowed_senders.iter().any(|allowed| allowed.matches(&address)) {
            Ok(address.into())
        } else {
            Err(InvalidMail::SenderNotAllowed(own.to_string()))
        }
    }

    fn trusts(&self, mailto: &MailTo) -> bool {
        mailto.recipients.iter().all(|one| self.trusted_recipients.iter().any(|trusted| trusted.matches(one)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules(allowed_senders: &[&str], trusted_recipients: &[&str]) -> MailRules {
        let patterns = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        let sender = "Queues <queues@example.com>".parse().unwrap();
        MailRules::new(sender, patterns(allowed_senders), patterns(trusted_recipients))
    }

    fn head(rules: &MailRules, mailto: &str, options: &Value) -> Result<(String, Option<String>), InvalidMail> {
        let options = DeliveryOptions::parse(&options.as_object().unwrap().into()).unwrap();
        rules.head(&MailTo::parse(mailto).unwrap(), &options).map(|head| (head.from.to_string(), head.subject))
    }

    #[test]
    fn a_subscription_names_only_senders_that_the_operator_allows() {
        let own = ("Queues <queues@example.com>".to_owned(), None);
        for from in [json!(null), json!("queues@example.com"), json!("Queues@Example.com")] {
            assert_eq!(head(&rules(&[], &[]), "a@b.example", &json!({ "from": from })), Ok(own.clone()));
        }
        let with_more = rules(&["@shop.example"], &[]);
        let allowed = head(&with_more, "a@b.example", &json!({"from": "orders@shop.example"})).unwrap();
        assert_eq!(allowed.0, "orders@shop.example");
        for from in ["boss@example.com", "orders@other.example"] {
            let refused = head(&with_more, "a@b.example", &json!({ "from": from }));
            assert_eq!(refused, Err(InvalidMail::SenderNotAllowed("queues@example.com".to_owned())));
        }
        for from in [json!(3), json!(""), json!("Boss <orders@shop.example>"), json!("orders@shop.example\r\nBcc: a@b")]
        {
            let refused = head(&with_more, "a@b.example", &json!({ "from": from }));
            assert_eq!(refused, Err(InvalidMail::Sender("queues@example.com".to_owned())), "{from}");
        }
    }

    #[test]
    fn the_subject_is_that_of_the_uri_or_of_the_options() {
        let rules = rules(&[], &[]);
        for (mailto, options, subject) in [
            ("a@b.example?subject=uri", json!({"subject": "option"}), Some("uri")),
            ("a@b.example", json!({"subject": "option"}), Some("option")),
            ("a@b.example?subject=", json!({"subject": ""}), None),
        ] {
            assert_eq!(head(&rules, mailto, &options).unwrap().1.as_deref(), subject);
        }
        for subject in
            [json!(3), json!("a\nb"), json!("a\r\nBcc: c@d.example"), json!("x".repeat(201)), json!("=?utf-8?q?a?=")]
        {
            assert_eq!(head(&rules, "a@b.example", &json!({ "subject": subject })), Err(InvalidMail::Subject));
        }
    }

    #[test]
    fn only_trusted_recipients_need_not_confirm_and_may_be_several() {
        let rules = rules(&[], &["@example.com"]);
        let check = |mailto| {
            rules
                .check(&MailTo::parse(mailto).unwrap(), &DeliveryOptions::parse(&crate::JsonObject::default()).unwrap())
        };

        assert!(!rules.recipients_must_confirm("http://a.example"));
        assert!(!rules.recipients_must_confirm("MAILTO:a@example.com,b@example.com"));
        assert!(rules.recipients_must_confirm("mailto:a@example.com,b@other.example"));
        assert!(rules.recipients_must_confirm("mailto:a@sub.example.com"));
        assert!(rules.recipients_must_confirm("mailto:"));
        assert_eq!(check("a@example.com,b@example.com"), Ok(()));
        assert_eq!(check("a@other.example"), Ok(()));
        assert_eq!(check("a@example.com,b@other.example"), Err(InvalidMail::SeveralRecipients));
    }
}
