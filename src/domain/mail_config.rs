//! The options of mail. `[mail]` in `config/default.toml` explains each of them.

use lettre::message::Mailbox;
use serde::{Deserialize, Deserializer};

use super::Secret;
use super::mail_address::{AddressPattern, parse_address};
use super::mail_rules::MailRules;

/// The options of mail to subscribers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct MailConfig {
    /// The name or address of the SMTP server; empty if no mail is sent.
    pub host: String,
    /// The port of the server; 0 for the usual one.
    port: u16,
    /// How connections to the server are encrypted.
    pub encryption: MailEncryption,
    /// The user that the service logs in as; empty for no login.
    pub username: String,
    /// The password of the user.
    pub password: Secret,
    /// A file with that password; empty if there is none.
    pub password_file: String,
    /// The sender of all mails; `None` only if no mail is sent.
    #[serde(deserialize_with = "optional_mailbox")]
    pub sender: Option<Mailbox>,
    /// Further senders that subscriptions may name.
    pub allowed_senders: Vec<AddressPattern>,
    /// Recipients that get mails although they have not confirmed.
    pub trusted_recipients: Vec<AddressPattern>,
    /// The name by which the service introduces itself; empty for the domain of the sender.
    pub hello_name: String,
    /// Maximum number of open connections to the server.
    pub max_connections: usize,
    /// The URL of the API for recipients of mails.
    pub api_url: String,
    /// The page on which recipients confirm; empty if there is none.
    pub external_confirmation_url: String,
    /// The text of the mail that asks a recipient to confirm.
    pub confirmation_text: String,
    /// The text of the mail after a recipient has ended its subscription.
    pub unsubscription_text: String,
}

/// How connections to the SMTP server are encrypted.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum MailEncryption {
    /// Not at all.
    None,
    /// They begin without encryption, and continue only with it.
    StartTls,
    /// From the beginning.
    Tls,
}

impl MailConfig {
    /// Returns the port of the server.
    #[must_use]
    pub fn port(&self) -> u16 {
        match (self.port, self.encryption) {
            (0, MailEncryption::None) => 25,
            (0, MailEncryption::StartTls) => 587,
            (0, MailEncryption::Tls) => 465,
            (port, _) => port,
        }
    }

    /// Returns whether some recipients must confirm.
    #[must_use]
    pub fn needs_confirmations(&self) -> bool {
        !self.trusted_recipients.contains(&AddressPattern::All)
    }

    /// Returns the rules for mails; `None` if no mail is sent.
    #[must_use]
    pub fn rules(&self) -> Option<MailRules> {
        let sender = self.sender.clone().filter(|_| !self.host.is_empty())?;
        Some(MailRules::new(sender, self.allowed_senders.clone(), self.trusted_recipients.clone()))
    }
}

/// Parses a sender: a mail address, or a name with an address in angle brackets.
#[must_use]
pub fn parse_mailbox(text: &str) -> Option<Mailbox> {
    let mailbox: Mailbox = text.parse().ok().filter(|_| !text.contains(char::is_control))?;
    parse_address(mailbox.email.as_ref()).map(|_| mailbox)
}

fn optional_mailbox<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Mailbox>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let invalid = || serde::de::Error::custom("a sender is a mail address");
    if text.is_empty() { Ok(None) } else { parse_mailbox(&text).map(Some).ok_or_else(invalid) }
}
