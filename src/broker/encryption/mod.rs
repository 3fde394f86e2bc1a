//! Encryption of messages: bodies are encrypted when they are posted to a queue that encrypts, and
//! decrypted when they leave the broker.
//!
//! An encrypted body is marked as such, so it can be read whatever the queue's metadata says by
//! now. A message that this process cannot decrypt is neither changed, nor skipped, nor lost. A
//! page ends before it, and a page that would begin with it is an error that names it. A claim that
//! would contain it is withdrawn. A pop has deleted it before it can be decrypted, so it is
//! restored to the queue.
//!
//! Several keys can decrypt, so that the key can be changed. What this process stores again, such
//! as a popped message, it encrypts with the first key; `rekey.rs` does the same for all that is
//! stored.

mod cipher;
pub(super) mod rekey;

use std::sync::atomic::{AtomicBool, Ordering};

pub use self::cipher::Cipher;
use self::cipher::CipherFailure;
use super::Error;
use super::access::AdmittedStore;
use crate::observability::request_id::with_current_span;
use sukkal_domain::metadata::InvalidMetadata;
use sukkal_domain::{Body, Message, MessageId, Metadata, NewMessage, QueueId};
use sukkal_storage::{Listing, Page, Popped, UriCipher};

/// Encrypts and decrypts with the key of this process, if it has one.
pub(super) struct Encryption {
    cipher: Option<Cipher>,
    /// Whether this process has met a message that it cannot decrypt. From then on it checks
    /// messages before it claims or pops them. Until then the check would only cost an operation of
    /// the store.
    checks_before_claim: AtomicBool,
}

/// Popped messages, divided by whether they could be decrypted.
pub(super) struct DecryptedPop {
    pub(super) messages: Vec<Message>,
    /// The popped messages of which [`Self::messages`] are the decrypted form.
    pub(super) readable: Vec<Popped>,
    /// The messages that could not be decrypted, with the error of the first.
    pub(super) failed: Option<(Vec<Popped>, Error)>,
}

impl Encryption {
    pub(super) fn new(cipher: Option<Cipher>) -> Self {
        Self { cipher, checks_before_claim: AtomicBool::new(false) }
    }

    /// Returns what encrypts the URIs of pools, if there is a key.
    pub(super) fn uri_cipher(&self) -> Option<&dyn UriCipher> {
        self.cipher.as_ref().map(|cipher| cipher as &dyn UriCipher)
    }

    /// Checks a change of a queue's metadata: a queue can begin to encrypt only if there is a key.
    pub(super) fn check(&self, before: &Metadata, after: &Metadata) -> Result<(), InvalidMetadata> {
        let begins = after.encrypts() && !before.encrypts();
        if begins && self.cipher.is_none() { Err(InvalidMetadata::NoKey) } else { Ok(()) }
    }

    /// Returns the messages as a queue with this metadata stores them. A body that is sealed
    /// already stays sealed.
    pub(super) fn encrypt(
        &self,
        queue: &QueueId,
        metadata: &Metadata,
        mut messages: Vec<NewMessage>,
    ) -> Result<Vec<NewMessage>, Error> {
        for message in &mut messages {
            if let Some(body) = self.reseal(queue, &message.body) {
                message.body = body;
            }
        }
        if metadata.encrypts() {
            let cipher = self
                .cipher
                .as_ref()
                .ok_or_else(|| no_key(&format!("{} {} encrypts", queue.name().kind().noun(), queue.name())))?;
            for message in messages.iter_mut().filter(|message| message.body.as_sealed().is_none()) {
                let encrypted = cipher.encrypt(queue.project(), message.body.as_msgpack());
                message.body = Body::sealed(&encrypted).expect("no request is as long as that");
            }
        }
        Ok(messages)
    }

    /// Returns the body sealed with the first key, if it is sealed with another key of this
    /// process.
    pub(super) fn reseal(&self, queue: &QueueId, body: &Body) -> Option<Body> {
        let encrypted = self.cipher.as_ref()?.reencrypt(queue.project(), body.as_sealed()?).ok()??;
        Body::sealed(&encrypted)
    }

    /// Returns the message with its body decrypted. All messages leave the broker here, so this
    /// also links the span of the request to the one that posted the message.
    pub(super) fn decrypt(&self, queue: &QueueId, mut message: Message) -> Result<Message, Error> {
        if let Some(encrypted) = message.body.as_sealed() {
            let decrypted = self.decrypt_body(queue, message.id, encrypted);
            message.body = decrypted.inspect_err(|_| self.checks_before_claim.store(true, Ordering::Relaxed))?;
        }
        if let Some(trace) = message.trace {
            with_current_span(|request| request.link(&trace.to_string()));
        }
        Ok(message)
    }

    /// Returns all the messages decrypted, or the error of the first that cannot be decrypted.
    pub(super) fn decrypt_all(&self, queue: &QueueId, messages: Vec<Message>) -> Result<Vec<Message>, Error> {
        messages.into_iter().map(|message| self.decrypt(queue, message)).collect()
    }

    /// Returns the page with the messages of [`Self::decrypt_prefix`].
    pub(super) fn decrypt_page(&self, queue: &QueueId, page: Page) -> Result<Page, Error> {
        Ok(Page { messages: self.decrypt_prefix(queue, page.messages)?, ..page })
    }

    /// Returns the messages before the first that cannot be decrypted, or its error if it is the
    /// first of all.
    pub(super) fn decrypt_prefix(&self, queue: &QueueId, messages: Vec<Message>) -> Result<Vec<Message>, Error> {
        let mut decrypted = Vec::with_capacity(messages.len());
        for message in messages {
            match self.decrypt(queue, message) {
                Ok(message) => decrypted.push(message),
                Err(error) if decrypted.is_empty() => return Err(error),
                Err(_) => break,
            }
        }
        Ok(decrypted)
    }

    /// Decrypts popped messages, and keeps apart those that cannot be decrypted.
    pub(super) fn decrypt_popped(&self, queue: &QueueId, popped: Vec<Popped>) -> DecryptedPop {
        let mut messages = Vec::with_capacity(popped.len());
        let mut readable = Vec::with_capacity(popped.len());
        let mut unreadable = Vec::new();
        let mut first_error = None;
        for one in popped {
            match self.decrypt(queue, one.message.clone()) {
                Ok(message) => {
                    messages.push(message);
                    readable.push(one);
                }
                Err(error) => {
                    unreadable.push(one);
                    first_error.get_or_insert(error);
                }
            }
        }
        DecryptedPop { messages, readable, failed: first_error.map(|error| (unreadable, error)) }
    }

    /// Returns the number of messages to claim or pop: `limit`, or fewer if this process has met a
    /// message that it cannot decrypt and one is among the next.
    ///
    /// Only the store knows which messages a fair queue returns next. There the number is 1, so
    /// that a message which cannot be decrypted takes the turn of its own shard only.
    ///
    /// # Errors
    ///
    /// The error of the next message, if that cannot be decrypted.
    pub(super) async fn claimable(&self, store: &AdmittedStore, queue: &QueueId, limit: usize) -> Result<usize, Error> {
        if !self.checks_before_claim.load(Ordering::Relaxed) {
            return Ok(limit);
        }
        let head = Listing::first(limit);
        let head = store.list_messages(queue, &head).await?;
        if head.is_fair {
            return Ok(1);
        }
        let listed = head.messages.len();
        let readable = self.decrypt_page(queue, head)?.messages.len();
        Ok(if readable < listed { readable } else { limit })
    }

    fn decrypt_body(&self, queue: &QueueId, id: MessageId, encrypted: &[u8]) -> Result<Body, Error> {
        let cipher = self.cipher.as_ref().ok_or_else(|| no_key(&format!("message {id} is encrypted")))?;
        match cipher.decrypt(queue.project(), encrypted) {
            Ok(plaintext) => Ok(Body::from_msgpack(plaintext.into())),
            Err(CipherFailure::OtherKey) => Err(Error::Key(format!(
                "message {id} is encrypted with another key than this server's; its operator must add the key that \
                 the message was posted with to message_decryption_keys"
            ))),
            Err(CipherFailure::Damaged) => Err(Error::Damaged(format!(
                "message {id} is encrypted and was damaged in the store, so it cannot be read any more; \
                 delete it, or list with its id as the marker"
            ))),
        }
    }
}

fn no_key(subject: &str) -> Error {
    Error::Key(format!(
        "{subject}, but this server has no encryption key; its operator must set message_encryption_key"
    ))
}
