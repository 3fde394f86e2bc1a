//! The state of a message in its document.

use serde::Serialize;
use uuid::Uuid;

use super::timestamp::timestamp;
use sukkal_domain::{ClientId, Message, MessageState};

const MICROS_PER_SECOND: u64 = 1_000_000;
const MILLIS_PER_SECOND: u64 = 1_000;

/// The keys that the document of a message has if the request asks for states. Keys that do not
/// apply are null.
#[derive(Debug, Serialize)]
pub struct StateDocument<'a> {
    state: &'static str,
    claim_id: Option<Uuid>,
    client_id: Option<&'a str>,
    claim_count: u32,
    #[serde(flatten)]
    first_claim: FirstClaimDocument,
    available_at: Option<String>,
}

/// The keys that a delivered message has if the request asks for states.
#[derive(Debug, Serialize)]
pub struct DeliveryDocument {
    claim_id: Option<Uuid>,
    claim_count: u32,
    #[serde(flatten)]
    first_claim: FirstClaimDocument,
}

/// When a message was first claimed, in whole seconds. It is null if that is not known.
#[derive(Debug, Serialize)]
pub struct FirstClaimDocument {
    first_claimed_at: Option<String>,
}

impl FirstClaimDocument {
    /// Creates the key of a message.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        Self { first_claimed_at: message.first_claim_ms.map(|ms| timestamp(ms / MILLIS_PER_SECOND)) }
    }
}

impl DeliveryDocument {
    /// Creates the keys of a message that a claim holds.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        Self {
            claim_id: message.claim.map(Uuid::from),
            claim_count: message.claim_count,
            first_claim: FirstClaimDocument::of(message),
        }
    }
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
            first_claim: FirstClaimDocument::of(message),
            // Rounded up, so that the message is available at this time.
            available_at: until_us.map(|until_us| timestamp(until_us.div_ceil(MICROS_PER_SECOND))),
        })
    }
}
