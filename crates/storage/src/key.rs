//! The key of a message within its queue: seven bytes of rank and five bytes of nonce, so that keys
//! sort in the order of their ranks.

use super::error::Error;
use sukkal_domain::message::Nonce;
use sukkal_domain::{MessageId, QueueId, Rank};

pub(super) const KEY_BYTES: usize = 12;
/// Key of a message.
pub(super) type Key = [u8; KEY_BYTES];
/// Length of the rank at the start of a key, in bytes.
pub(super) const RANK_BYTES: usize = 7;
/// Length of the nonce at the end of a key, in bytes.
pub(super) const NONCE_BYTES: usize = KEY_BYTES - RANK_BYTES;

/// Returns the key of the message with this id.
pub(super) fn key_of(id: MessageId) -> [u8; KEY_BYTES] {
    key(id.rank().micros(), nonce_bytes(id.nonce()))
}

/// Returns the key of a message with this rank, in microseconds, and this nonce.
pub(super) fn key(rank: u64, nonce: [u8; NONCE_BYTES]) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..RANK_BYTES].copy_from_slice(&rank.to_be_bytes()[1..]);
    key[RANK_BYTES..].copy_from_slice(&nonce);
    key
}

/// Returns the first key after all keys with this prefix.
pub(super) fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// Returns the id of the message with this key.
pub(super) fn id_of(queue: &QueueId, key: &[u8]) -> Result<MessageId, Error> {
    if key.len() != KEY_BYTES {
        return Err(Error::Corrupt(format!("a message's key has {} bytes instead of {KEY_BYTES}", key.len())));
    }
    let micros = number(&key[..RANK_BYTES]);
    let rank = Rank::new(micros).ok_or_else(|| Error::Corrupt(format!("rank {micros} is beyond 2^53")))?;
    Ok(MessageId::new(queue, rank, Nonce::from_bits(number(&key[RANK_BYTES..]))))
}

/// Returns the rank of the message with this key, in microseconds.
pub(super) fn rank_of(key: &[u8; KEY_BYTES]) -> u64 {
    number(&key[..RANK_BYTES])
}

/// Returns the bytes of a nonce in a key.
pub(super) fn nonce_bytes(nonce: Nonce) -> [u8; NONCE_BYTES] {
    nonce.bits().to_be_bytes()[3..].try_into().expect("five of eight bytes")
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
