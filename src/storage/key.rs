//! What a message is called inside its queue: its rank in seven bytes and its nonce in five, so that keys sort
//! as ranks do.

use super::Error;
use crate::domain::message::Nonce;
use crate::domain::{MessageId, QueueId, Rank};

pub(super) const KEY_BYTES: usize = 12;
/// A message's key.
pub(super) type Key = [u8; KEY_BYTES];
/// Length of the rank, with which a key begins.
pub(super) const RANK_BYTES: usize = 7;
/// Length of the nonce behind it.
pub(super) const NONCE_BYTES: usize = KEY_BYTES - RANK_BYTES;

/// The key of the message with that id.
pub(super) fn key_of(id: MessageId) -> [u8; KEY_BYTES] {
    key(id.rank().micros(), nonce_bytes(id.nonce()))
}

/// The key of a message with that rank and nonce.
pub(super) fn key(rank: u64, nonce: [u8; NONCE_BYTES]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..RANK_BYTES].copy_from_slice(&rank.to_be_bytes()[1..]);
    key[RANK_BYTES..].copy_from_slice(&nonce);
    key
}

/// The id of the message with that key.
pub(super) fn id_of(queue: &QueueId, key: &[u8]) -> Result<MessageId, Error> {
    if key.len() != KEY_BYTES {
        return Err(Error::Corrupt("a message's key has not twelve bytes".to_owned()));
    }
    let micros = number(&key[..RANK_BYTES]);
    let rank = Rank::new(micros).ok_or_else(|| Error::Corrupt(format!("rank {micros} is beyond 2^53")))?;
    Ok(MessageId::new(queue, rank, Nonce::from_bits(number(&key[RANK_BYTES..]))))
}

/// The rank of the message with that key, in microseconds.
pub(super) fn rank_of(key: &[u8; KEY_BYTES]) -> u64 {
    number(&key[..RANK_BYTES])
}

/// A nonce as it stands in a key.
pub(super) fn nonce_bytes(nonce: Nonce) -> [u8; NONCE_BYTES] {
    nonce.bits().to_be_bytes()[3..].try_into().expect("five of eight bytes")
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
