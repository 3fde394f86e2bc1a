//! Formats the arguments of scripts: numbers, claim ids and message keys.

use bytes::Bytes;

use crate::key;
use sukkal_domain::{ClaimId, MessageId};

/// Returns a number in decimal.
pub(super) fn number(number: u64) -> Bytes {
    number.to_string().into()
}

/// Returns the 16 bytes of a claim id.
pub(super) fn claim(id: ClaimId) -> Bytes {
    Bytes::copy_from_slice(id.as_bytes())
}

/// Returns the key of a message.
pub(super) fn message_key(id: MessageId) -> Bytes {
    Bytes::copy_from_slice(&key::key_of(id))
}

/// Returns the keys of messages.
pub(super) fn message_keys(ids: &[MessageId]) -> Vec<Bytes> {
    ids.iter().copied().map(message_key).collect()
}
