//! A request that is to happen once, however often it is sent: `Idempotency-Key`.

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::ClientId;

/// The longest idempotency key, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// By what a request knows itself again: the key that its client gave it, and what it brought. A key
/// belongs to its queue and client.
///
/// Stores keep hashes of both. The client's id is part of each, so who does not know that can confirm no guess
/// at a key like `order-4711` or at the content of an encrypted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    key: String,
    content: [u8; 32],
}

/// Why a text is no idempotency key.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the Idempotency-Key must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters")]
pub struct InvalidKey;

impl Once {
    /// The request with this key that brings this content.
    pub fn new(key: &[u8], content: &[u8]) -> Result<Self, InvalidKey> {
        let legal = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        let key = String::from_utf8(key.to_vec()).ok().filter(|_| legal).ok_or(InvalidKey)?;
        Ok(Self { key, content: Sha256::digest(content).into() })
    }

    /// What the key is called when this client gives it.
    #[must_use]
    pub fn name(&self, client: &ClientId) -> [u8; 16] {
        hash(&[client.as_str().as_bytes(), self.key.as_bytes()])
    }

    /// Tells the content from any other under this key of this client.
    #[must_use]
    pub fn digest(&self, client: &ClientId) -> [u8; 16] {
        hash(&[client.as_str().as_bytes(), self.key.as_bytes(), &self.content])
    }
}

/// The first half of the SHA-256 of the parts, a zero byte between them: neither key nor client id has one.
fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let hash = Sha256::digest(parts.join(&0));
    hash[..16].try_into().expect("it has thirty-two bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ClientIdRule;

    #[test]
    fn what_is_kept_depends_on_the_client_as_well() {
        let client = |id| ClientIdRule::Text(1..=9).parse(id).unwrap();
        let once = |content: &[u8]| Once::new(b"order-4711", content).unwrap();

        assert_ne!(once(b"a").name(&client("one")), once(b"a").name(&client("two")));
        assert_ne!(once(b"a").digest(&client("one")), once(b"a").digest(&client("two")));
        assert_ne!(once(b"a").digest(&client("one")), once(b"b").digest(&client("one")));
    }

    #[test]
    fn a_key_is_plain_and_short() {
        for key in ["a", "\"quoted\"", "8e03978e-40d5-43e8-bc93-6894a57f9324", &"x".repeat(255)] {
            assert!(Once::new(key.as_bytes(), b"").is_ok(), "{key:?}");
        }
        for key in ["", "a b", "é", "a\n", &"x".repeat(256)] {
            assert_eq!(Once::new(key.as_bytes(), b""), Err(InvalidKey), "{key:?}");
        }
    }
}
