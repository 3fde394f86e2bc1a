//! The options of mail: `[mail]`.

use std::net::Ipv6Addr;

use lettre::message::Mailbox;
use serde::{Deserialize, Deserializer};

use super::Secret;
use super::host_and_port::host_of;
use super::mail_address::{AddressPattern, parse_address};
use super::mail_rules::MailRules;
use crate::options::{Rule, options};

const OPTIONAL_HOST: Rule =
    Rule::Text(|text| text.is_empty() || is_host(text), "the name or address of a server, or empty");
const OPTIONAL_MAILBOX: Rule = Rule::Text(
    |text| text.is_empty() || parse_mailbox(text).is_some(),
    "a mail address such as \"q@example.com\" or \"Queues <q@example.com>\", or empty",
);
const ADDRESSES: Rule =
    Rule::list_of::<AddressPattern>("a list of mail addresses, domains such as \"@example.com\", and \"*\" for all");
const TEXT_WITH_LINK: Rule = Rule::Text(|text| text.contains("{link}"), "text in quotes that contains {link}");
const CONFIRMATION_TEXT: &str = "\
You have been subscribed to the queue {queue} of the project {project}.

To receive its messages by mail, confirm the subscription:

{link}

If you do not want these mails, ignore this one. You will not get messages.
";
const UNSUBSCRIPTION_TEXT: &str = "\
You have unsubscribed from the queue {queue} of the project {project}.

To receive its messages again, confirm the subscription:

{link}
";

options! {
    /// The options of mail to subscribers.
    #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
    pub struct MailConfig {
        //! Sends the messages of queues and topics by mail, to subscribers whose URI begins with
        //! mailto:. docs/mail.md explains how. Mail is off unless `host` is set. All processes of a
        //! deployment should have the same values.

        /// SMTP server to which Sukkal sends the mails. Accepted: a name or an IP address, or
        /// empty. The default is empty: no mail is sent, and a mailto subscriber is refused.
        #[serde(deserialize_with = "optional_host")]
        pub host: String = "" in OPTIONAL_HOST,
        /// Port of the server. Accepted: 0 to 65535. The default is 0: 587 with "starttls", 465
        /// with "tls", and 25 with "none".
        port: u16 = 0 in Rule::Integer(0, 65_535, ""),
        /// Encryption of connections to the server, whose certificate must be valid for `host`.
        /// Accepted values:
        ///   "starttls"   connections switch to TLS before the login and the mails
        ///   "tls"        connections begin with TLS
        ///   "none"       no encryption; if a password is set and the server is on another machine, Sukkal
        ///                logs a warning
        /// The default is "starttls".
        pub encryption: MailEncryption = "starttls" in Rule::OneOf(&["none", "starttls", "tls"]),
        /// User that Sukkal logs in as. Accepted: any text. The default is empty: there is no
        /// login.
        pub username: String = "" in Rule::TEXT,
        /// Password of the user. Set it as SUKKAL_MAIL__PASSWORD to keep it out of files. Accepted:
        /// any text. The default is empty.
        pub password: Secret = "" in Rule::PASSWORD,
        /// Name of a file with that password, which is read when Sukkal starts. White space around
        /// it is ignored. Accepted: the name of a file, or empty. Only one of the two options may
        /// be set. The default is empty.
        pub password_file: String = "" in Rule::OPTIONAL_FILE,
        /// Sender of the mails. Accepted: a mail address such as "queues@example.com" or
        /// "Queues <queues@example.com>", or empty if `host` is empty. The default is empty.
        #[serde(deserialize_with = "optional_mailbox")]
        pub sender: Option<Mailbox> = "" in OPTIONAL_MAILBOX,
        /// Other senders that clients may name in the option `from` of a subscription. Accepted: a
        /// list of mail addresses, domains such as "@example.com", and "*" for all. In the
        /// environment, they are separated by commas. The default is []: all mails come from
        /// `sender`.
        pub allowed_senders: Vec<AddressPattern> = [] in ADDRESSES,
        /// Recipients that get messages without a confirmation. All others must confirm their
        /// subscription first, so that clients cannot send mails to people who do not want them.
        /// Accepted: the same values as for allowed_senders. The default is [].
        pub trusted_recipients: Vec<AddressPattern> = [] in ADDRESSES,
        /// Name by which Sukkal introduces itself to the server. Accepted: a name, or empty. The
        /// default is empty: it is the domain of the sender.
        pub hello_name: String = "" in OPTIONAL_HOST,
        /// Maximum number of open connections to the server. Projects take turns. One project uses
        /// at most a quarter of them. Accepted: 1 to 1000000. The default is 16.
        pub max_connections: usize = 16 in Rule::CONNECTIONS,
        /// URL at which recipients reach the API, for the links in mails. Accepted: a URL such as
        /// "https://queues.example.com", or empty if no recipient has to confirm. The default is
        /// empty.
        pub api_url: String = "" in Rule::OPTIONAL_WEB_URL,
        /// Web page on which recipients confirm. The links in mails are its URL with the parameters
        /// Signature, Methods, Paths, Project, Expires, Url and Queue. The page uses them to send
        /// the request that confirms; see docs/mail.md. Accepted: a URL, or empty. The default is
        /// empty: instead of a link, mails contain a curl command that confirms.
        pub external_confirmation_url: String = "" in Rule::OPTIONAL_WEB_URL,
        /// Text of the mail that asks a recipient to confirm. {queue}, {project} and {link} are
        /// replaced. Accepted: any text with {link}.
        pub confirmation_text: String = CONFIRMATION_TEXT in TEXT_WITH_LINK,
        /// Text of the mail after a recipient has ended its subscription. Accepted: any text with
        /// {link}.
        pub unsubscription_text: String = UNSUBSCRIPTION_TEXT in TEXT_WITH_LINK;
    }
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

/// Returns whether a text is the name or the address of a host.
fn is_host(text: &str) -> bool {
    host(text).is_some()
}

/// Returns a host. An IPv6 address may have brackets, which it needs where a port follows.
fn host(text: &str) -> Option<String> {
    host_of(text).or_else(|| text.parse::<Ipv6Addr>().ok().map(|address| address.to_string()))
}

fn optional_host<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(|text| host(&text).unwrap_or(text))
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
