//! The state of a message in its document.

use serde::Serialize;
use uuid::Uuid;

use super::timestamp::timestamp;
use sukkal_domain::{ClientId, Message, MessageState};

const MICROS_PER_SECOND: u64 = 1_000_000;

/// The keys that the document of a message has if the request asks for states. Keys that do not
/// apply are null.
#[derive(Debug, Serialize)]
pub struct StateDocument<'a> {
    state: &'static str,
    claim_id: Option<Uuid>,
    client_id: Option<&'a str>,
    claim_count: u32,
    available_at: Option<String>,
}

impl<'a> StateDocument<'a> {
    /// Creates the keys of a message that was read with its state; `None` for any other message.
    #[must_use]
    pub fn of(message: &'a Message) -> Option<Self> {
        let (state, client, until_us) = match message.state.as_ref()? {
            MessageState::Available => ("available", None, None),
            MessageState::Delayed { until_us } => ("delayed", None, Some(*until_us)),
            MessageState::Claimed { until_us, client } => ("claimed", Some(client), Some(*until_us)),
        };
        Some(Self {
            state,
            claim_id: message.claim.map(Uuid::from),
            client_id: client.map(ClientId::as_str),
            claim_count: message.claim_count,
            // Rounded up, so that the message is available at this time.
            available_at: until_us.map(|until_us| timestamp(until_us.div_ceil(MICROS_PER_SECOND))),
        })
    }
}
