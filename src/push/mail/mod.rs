//! Mails to subscribers: their contents, and the client that sends them.

mod confirmation;
mod confirmation_limits;
mod smtp;
mod stream;

use lettre::Message;
use lettre::message::Mailbox;
use lettre::message::header::{ContentTransferEncoding, ContentType, Header, HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

use self::confirmation::Texts;
use self::confirmation_limits::ConfirmationLimits;
use self::smtp::SmtpClient;
use super::client::{Response, SendFailure};
use sukkal_domain::{
    ConfirmationRequest, DeliveryOptions, MailConfig, MailRules, MailTo, MessageId, QueueName, SubscriptionId,
};

/// Sends mails.
pub(super) struct Mailer {
    smtp: SmtpClient,
    rules: MailRules,
    /// The domain of the sender.
    domain: String,
    texts: Texts,
    confirmation_limits: ConfirmationLimits,
}

/// Says that no person has written the mail, so that nobody's absence note answers it (RFC 3834).
#[derive(Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}

impl Mailer {
    /// Creates a mailer; `None` if the operator wants no mails.
    pub(super) fn new(config: &MailConfig) -> Option<Self> {
        let rules = config.rules()?;
        let domain = rules.sender().email.domain().to_owned();
        let hello_name = if config.hello_name.is_empty() { &domain } else { &config.hello_name };
        let smtp = SmtpClient::new(config, hello_name);
        Some(Self {
            smtp,
            rules,
            domain,
            texts: Texts::new(config),
            confirmation_limits: ConfirmationLimits::default(),
        })
    }

    /// Returns the rules for mails.
    pub(super) fn rules(&self) -> &MailRules {
        &self.rules
    }

    /// Keeps the connections tidy until the process stops.
    pub(super) async fn maintain(&self, stopping: &CancellationToken) {
        self.smtp.close_unused(stopping).await;
    }

    /// Returns the mail with a message. Its id is the same in each attempt.
    pub(super) fn notification(
        &self,
        queue: &QueueName,
        (subscription, message): (SubscriptionId, MessageId),
        mailto: &MailTo,
        options: &DeliveryOptions,
        body: &[u8],
    ) -> Result<Message, SendFailure> {
        let head = self.rules.head(mailto, options).map_err(|reason| SendFailure::Refused(reason.to_string()))?;
        let subject = head.subject.unwrap_or_else(|| format!("Message of the queue {queue}"));
        let id = format!("{message}.{subscription}");
        self.mail(head.from, mailto, subject, &id, String::from_utf8_lossy(body).into_owned())
    }

    /// Returns the mail that asks a recipient to confirm. Nothing in it is chosen by a client, but
    /// for the names of the queue and the project. Returns why it is not sent if there were many
    /// lately.
    pub(super) fn confirmation(
        &self,
        request: &ConfirmationRequest,
        document: &serde_json::Value,
        mailto: &MailTo,
        id: &str,
    ) -> Result<Message, SendFailure> {
        self.confirmation_limits.count(request.queue.project(), mailto).map_err(SendFailure::Refused)?;
        let (subject, text) = self.texts.of(request, document);
        self.mail(self.rules.sender().clone(), mailto, subject, id, text)
    }

    /// Sends a mail, and returns the reply of the server.
    pub(super) async fn send(&self, mail: &Message) -> Result<Response, SendFailure> {
        self.smtp.send(mail).await
    }

    fn mail(
        &self,
        from: Mailbox,
        to: &MailTo,
        subject: String,
        id: &str,
        text: String,
    ) -> Result<Message, SendFailure> {
        let mail = Message::builder()
            .from(from)
            .subject(subject)
            .date_now()
            .message_id(Some(format!("<{id}@{}>", self.domain)))
            .header(AutoSubmitted)
            .header(lettre::message::header::MIME_VERSION_1_0)
            .header(ContentType::TEXT_PLAIN)
            // Only this encoding has short lines and no line break that a server may misunderstand.
            .header(ContentTransferEncoding::QuotedPrintable);
        let mail = to.recipients.iter().fold(mail, |mail, recipient| mail.to(recipient.clone().into()));
        mail.body(text).map_err(|error| SendFailure::Refused(error.to_string()))
    }
}
