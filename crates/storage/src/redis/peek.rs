//! Reads the entries of messages with their states. A list reads states with a second script, so
//! that the script of all other lists needs neither the keys nor the code for them.

use bytes::Bytes;

use super::RedisStore;
use super::reply::{self, Reply};
use super::script::MESSAGE_PEEK;
use crate::Error;
use crate::entry::Entry;
use sukkal_domain::{ClientId, Message, MessageState, QueueId};

/// Maximum number of messages whose states one script reads. The script reads fewer if their claims
/// are large.
const MESSAGES_PER_STEP: usize = 100;

/// The entry of a message, with its state.
pub(super) struct Peeked {
    pub(super) entry: Entry,
    pub(super) state: MessageState,
    /// Whether the message is claimed or was returned with a delay.
    pub(super) is_in_flight: bool,
}

/// Messages with their states.
pub(super) struct PeekedPage {
    pub(super) now_us: u64,
    /// Those of the messages that exist, in the order of their keys.
    pub(super) messages: Vec<Peeked>,
    /// Number of the keys that were examined.
    pub(super) examined: usize,
}

impl RedisStore {
    /// Returns all those of the messages that exist.
    pub(super) async fn peek(&self, queue: &QueueId, keys: &[Bytes]) -> Result<PeekedPage, Error> {
        let mut page = self.peek_some(queue, keys).await?;
        while page.examined < keys.len() {
            let next = self.peek_some(queue, &keys[page.examined..]).await?;
            page.now_us = next.now_us;
            page.messages.extend(next.messages);
            page.examined += next.examined;
        }
        Ok(page)
    }

    /// Returns those of the first messages that exist. Examines fewer keys than given if the claims
    /// of their messages are large, and at least one.
    pub(super) async fn peek_some(&self, queue: &QueueId, keys: &[Bytes]) -> Result<PeekedPage, Error> {
        let mut page = PeekedPage { now_us: 0, messages: Vec::with_capacity(keys.len()), examined: 0 };
        for keys in keys.chunks(MESSAGES_PER_STEP) {
            let (_found, mut reply) = self.run_applying_due(&MESSAGE_PEEK, queue, keys).await?;
            page.now_us = reply.number()?;
            let examined = usize::try_from(reply.number()?).expect("it is the number of some of the keys");
            page.messages.extend(reply.read_all(read_peeked)?);
            page.examined += examined;
            if examined < keys.len() {
                break;
            }
        }
        Ok(page)
    }

    /// Returns the messages of these entries with their states; `None` for a message that has been
    /// deleted since.
    pub(super) async fn messages_of_peeked(
        &self,
        queue: &QueueId,
        now_us: u64,
        peeked: Vec<Peeked>,
    ) -> Result<Vec<Option<Message>>, Error> {
        let entries: Vec<Entry> = peeked.iter().map(|peeked| peeked.entry).collect();
        let messages = self.messages_of(queue, now_us, &entries).await?;
        let states = peeked.into_iter().map(|peeked| Some(peeked.state));
        Ok(messages.into_iter().zip(states).map(|(message, state)| Some(Message { state, ..message? })).collect())
    }
}

fn read_peeked(reply: &mut Reply) -> Result<Peeked, Error> {
    let entry = Entry::decode(&reply.bytes()?)?;
    let (state, time, client) = (reply.text()?, reply.text()?, reply.text()?);
    let until_us = || reply::parse_number(&time);
    let (state, is_in_flight) = match state.as_str() {
        "available" => (MessageState::Available, false),
        "delayed" => (MessageState::Delayed { until_us: until_us()? }, false),
        "returned" => (MessageState::Delayed { until_us: until_us()? }, true),
        "claimed" => {
            let client = ClientId::from_store(&client);
            (MessageState::Claimed { until_us: until_us()?, client }, true)
        }
        state => return Err(reply::unknown_kind(MESSAGE_PEEK.name, state)),
    };
    Ok(Peeked { entry, state, is_in_flight })
}
