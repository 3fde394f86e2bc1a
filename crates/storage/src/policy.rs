//! The policy of a queue: the part of its metadata that stores enforce.
//!
//! It is empty if there is nothing to enforce. Numbers are big-endian, in this order: flags (`u8`,
//! [`DELAYS`] and [`FAIR`]), maximum claim count (`u32`), time to live of dead letters (`u32`, 0:
//! not set). A fair queue adds the number of shards and of shards per tenant (`u16` each). The name
//! of the dead-letter queue comes last.

use bytes::Bytes;

use sukkal_domain::{Metadata, QueueName, Sharding};

/// Flag: the queue delays messages.
const DELAYS: u8 = 1;
/// Flag: the queue is fair.
const FAIR: u8 = 2;
/// Size in bytes of the flags, the maximum claim count and the time to live.
const HEAD_BYTES: usize = 9;

/// The policy of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueuePolicy {
    /// Whether the queue delays messages.
    pub(crate) delays: bool,
    pub(crate) dead_letters: Option<DeadLetters>,
    /// How the queue is divided into shards, if it is fair.
    pub(crate) sharding: Option<Sharding>,
}

/// What happens to messages that reached the maximum number of deliveries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DeadLetters {
    pub(crate) count_max: u32,
    /// Time to live in seconds after the move; 0 keeps the original expiration.
    pub(crate) ttl_s: u32,
    pub(crate) target: QueueName,
}

/// Returns the encoded policy of a queue with this metadata.
#[must_use]
pub(super) fn encode(metadata: &Metadata) -> Bytes {
    let delays = metadata.default_message_delay_s().is_some();
    let dead_letters = metadata.dead_letters();
    let sharding = metadata.sharding();
    if !delays && dead_letters.is_none() && sharding.is_none() {
        return Bytes::new();
    }
    let mut policy = vec![if delays { DELAYS } else { 0 } | if sharding.is_some() { FAIR } else { 0 }];
    policy.extend(dead_letters.as_ref().map_or(0, |settings| settings.claim_count_max).to_be_bytes());
    policy.extend(dead_letters.as_ref().and_then(|settings| settings.ttl_s).unwrap_or(0).to_be_bytes());
    policy.extend(sharding.iter().flat_map(|sharding| sharding.shards().to_be_bytes()));
    policy.extend(sharding.iter().flat_map(|sharding| sharding.per_tenant().to_be_bytes()));
    policy.extend(dead_letters.iter().flat_map(|settings| settings.queue.as_str().bytes()));
    policy.into()
}

impl QueuePolicy {
    /// Decodes a policy; `None` if it cannot be read.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let (head, rest) = bytes.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().expect("four bytes"));
        let is_set = |flag| head[0] & flag != 0;
        let (sharding, target) = if is_set(FAIR) {
            let (shards, rest) = rest.split_first_chunk()?;
            let (per_tenant, target) = rest.split_first_chunk()?;
            (Some(Sharding::new(u16::from_be_bytes(*shards), u16::from_be_bytes(*per_tenant))?), target)
        } else {
            (None, rest)
        };
        let dead_letters = match target {
            [] => None,
            // No limit, as earlier releases have stored it.
            _ if number(1) == 0 => None,
            target => Some(DeadLetters {
                count_max: number(1),
                ttl_s: number(5),
                target: str::from_utf8(target).ok()?.parse().ok()?,
            }),
        };
        Some(Self { delays: is_set(DELAYS), dead_letters, sharding })
    }
}
