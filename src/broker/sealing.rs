//! Encryption of messages: bodies are sealed on their way into queues that encrypt and opened wherever they
//! leave, here and nowhere else. A body says itself whether it is sealed, so it can be read whatever its queue's
//! metadata says by now.
//!
//! A message that this process cannot open is neither shown as something else nor passed over nor lost. A page
//! ends before it, and a page that would begin with it is an error that names it. A claim that would hold it
//! is withdrawn. A pop is over before anybody can look: what cannot be opened is put back as it was.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::timeout;

use super::cipher::{Cipher, Failure};
use super::{Admitted, Broker, Error};
use crate::domain::metadata::InvalidMetadata;
use crate::domain::{Body, Claim, Message, MessageId, Metadata, NewMessage, QueueId};
use crate::storage::{Listing, Page, Popped, Scope};

/// How long a caller waits for what goes back.
const PUT_BACK_WAIT: Duration = Duration::from_secs(2);

/// What this process seals and opens with.
pub(super) struct Sealing {
    cipher: Option<Cipher>,
    /// Whether it has met a message that it cannot open. From then on it looks before it takes: that spares
    /// messages being taken in vain, and everybody else a trip to the store.
    wary: AtomicBool,
}

impl Sealing {
    pub(super) fn new(cipher: Option<Cipher>) -> Self {
        Self { cipher, wary: AtomicBool::new(false) }
    }

    /// Whether a queue's metadata may become this: only who has a key may make it encrypt.
    pub(super) fn check(&self, before: &Metadata, after: &Metadata) -> Result<(), InvalidMetadata> {
        let begins = after.encrypts() && !before.encrypts();
        if begins && self.cipher.is_none() { Err(InvalidMetadata::NoKey) } else { Ok(()) }
    }

    /// The messages as a queue with this metadata keeps them.
    pub(super) fn seal(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        mut messages: Vec<NewMessage>,
    ) -> Result<Vec<NewMessage>, Error> {
        if metadata.encrypts() {
            let cipher = self.cipher.as_ref().ok_or_else(|| no_key(&format!("queue {} encrypts", queue.name())))?;
            for message in &mut messages {
                let inside = cipher.seal(queue.project(), message.body.as_msgpack());
                message.body = Body::sealed(&inside).expect("no request is as long as that");
            }
        }
        Ok(messages)
    }

    /// The message as its reader wants it.
    pub(super) fn open(&self, queue: &QueueId, mut message: Message) -> Result<Message, Error> {
        if let Some(inside) = message.body.as_sealed() {
            let opened = self.open_body(queue, message.id, inside);
            message.body = opened.inspect_err(|_| self.wary.store(true, Ordering::Relaxed))?;
        }
        Ok(message)
    }

    pub(super) fn open_all(&self, queue: &QueueId, messages: Vec<Message>) -> Result<Vec<Message>, Error> {
        messages.into_iter().map(|message| self.open(queue, message)).collect()
    }

    /// The messages before the first that cannot be opened; an error if there are none before it.
    pub(super) fn open_page(&self, queue: &QueueId, page: Page) -> Result<Page, Error> {
        Ok(Page { messages: self.open_some(queue, page.messages)?, ..page })
    }

    /// The same of messages.
    pub(super) fn open_some(&self, queue: &QueueId, messages: Vec<Message>) -> Result<Vec<Message>, Error> {
        let mut opened = Vec::with_capacity(messages.len());
        for message in messages {
            match self.open(queue, message) {
                Ok(message) => opened.push(message),
                Err(error) if opened.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(opened)
    }

    fn open_body(&self, queue: &QueueId, id: MessageId, inside: &[u8]) -> Result<Body, Error> {
        let cipher = self.cipher.as_ref().ok_or_else(|| no_key(&format!("message {id} is encrypted")))?;
        match cipher.open(queue.project(), inside) {
            Ok(plain) => Ok(Body::from_msgpack(plain.into())),
            Err(Failure::OtherKey) => Err(Error::Key(format!(
                "message {id} is encrypted with another key than this server's; its operator must set the \
                 message_encryption_key that the message was posted with"
            ))),
            Err(Failure::Damaged) => Err(Error::Damaged(format!(
                "message {id} is encrypted and was damaged in the store, so it cannot be read any more; \
                 delete it, or list with its id as the marker"
            ))),
        }
    }
}

fn no_key(what: &str) -> Error {
    Error::Key(format!("{what}, but this server has no encryption key; its operator must set message_encryption_key"))
}

impl Broker {
    /// How many messages to take from the head of the queue: `limit`, or fewer where this process is wary
    /// and cannot open them all. An error if it cannot open the first. Which one is next in a fair queue the store alone
    /// knows, so there it is one at a time, and one that cannot be opened takes the turn of its shard only.
    pub(super) async fn look_ahead(&self, store: &Admitted, queue: &QueueId, limit: usize) -> Result<usize, Error> {
        if !self.sealing.wary.load(Ordering::Relaxed) {
            return Ok(limit);
        }
        let head = Listing { after: None, limit, not_from: None, scope: Scope::default() };
        let head = store.list_messages(queue, &head).await?;
        if head.is_fair {
            return Ok(1);
        }
        let seen = head.messages.len();
        let readable = self.sealing.open_page(queue, head)?.messages.len();
        Ok(if readable < seen { readable } else { limit })
    }

    /// The claim as its maker wants it; withdrawn if that cannot be.
    pub(super) async fn open_claim(&self, queue: &QueueId, mut claim: Claim) -> Result<Claim, Error> {
        match self.sealing.open_all(queue, claim.messages) {
            Ok(messages) => {
                claim.messages = messages;
                Ok(claim)
            }
            Err(error) => {
                self.store.withdraw_claim(queue, claim.id).await?;
                Err(error)
            }
        }
    }

    /// The popped messages as their reader wants them. What cannot be opened goes back.
    pub(super) async fn open_popped(&self, queue: &QueueId, popped: Vec<Popped>) -> Result<Vec<Message>, Error> {
        let mut opened = Vec::with_capacity(popped.len());
        let mut closed = Vec::new();
        let mut failure = None;
        for one in popped {
            match self.sealing.open(queue, one.message.clone()) {
                Ok(message) => opened.push(message),
                Err(error) => {
                    closed.push(one);
                    failure.get_or_insert(error);
                }
            }
        }
        let Some(failure) = failure else {
            return Ok(opened);
        };
        let way_back = self.writes.spawn(self.clone().put_back(queue.clone(), closed));
        // Not for longer: it goes on by itself.
        let _over = timeout(PUT_BACK_WAIT, way_back).await;
        if opened.is_empty() {
            return Err(failure);
        }
        tracing::error!(error = %failure, "a popped message was put back");
        Ok(opened)
    }
}
