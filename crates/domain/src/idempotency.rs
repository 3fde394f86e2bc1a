//! `Idempotency-Key`: a request that takes effect once, however often the client sends it.

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::ClientId;

/// Maximum length of an idempotency key, in characters.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 255;

/// Number of bytes of a digest: its version, and a hash.
pub const DIGEST_BYTES: usize = 17;
/// Version of the digests. Earlier ones had 16 bytes and no version. They were hashes of the bytes
/// of the request, and not of its messages.
const DIGEST_VERSION: u8 = 2;

/// Recognizes a repeated request: the key that the client has chosen, and a hash of the content. A
/// key is valid for one queue and one client.
///
/// Stores keep hashes of the key and of the content. Both include the client id. Somebody who reads
/// the store without knowing that id can therefore not confirm a guess of a key like `order-4711`,
/// or of an encrypted message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdempotencyKey {
    key: String,
    content: [u8; 32],
}

/// The text is not a valid idempotency key.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("the Idempotency-Key must have 1 to {IDEMPOTENCY_KEY_CHARS_MAX} visible ASCII characters")]
pub struct InvalidKey;

impl IdempotencyKey {
    /// Returns the idempotency key of a request with this content. The key may be in quotes.
    ///
    /// # Errors
    ///
    /// [`InvalidKey`] if the key is empty, too long, or has other characters than visible ASCII.
    pub fn new(key: &[u8], content: &[u8]) -> Result<Self, InvalidKey> {
        let key = unquoted(key).ok_or(InvalidKey)?;
        let legal = (1..=IDEMPOTENCY_KEY_CHARS_MAX).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        let key = String::from_utf8(key).ok().filter(|_| legal).ok_or(InvalidKey)?;
        Ok(Self { key, content: Sha256::digest(content).into() })
    }

    /// Returns the hash under which a store keeps this key of this client.
    #[must_use]
    pub fn name(&self, client: &ClientId) -> [u8; 16] {
        hash(&[client.as_str().as_bytes(), self.key.as_bytes()])
    }

    /// Returns a digest that distinguishes the content from any other content under this key of
    /// this client. Digests are compared only if they have the same version.
    #[must_use]
    pub fn digest(&self, client: &ClientId) -> [u8; DIGEST_BYTES] {
        let mut digest = [DIGEST_VERSION; DIGEST_BYTES];
        digest[1..].copy_from_slice(&hash(&[client.as_str().as_bytes(), self.key.as_bytes(), &self.content]));
        digest
    }
}

/// Returns the key in a header, which may be a string of a structured field (RFC 9651, section
/// 3.3.3). Such a string is in quotes, and has a backslash before each quote and backslash. `None`
/// if it does not end.
fn unquoted(header: &[u8]) -> Option<Vec<u8>> {
    let Some(quoted) = header.strip_prefix(b"\"") else { return Some(header.to_vec()) };
    let mut key = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter().copied();
    loop {
        match bytes.next()? {
            b'"' => return bytes.next().is_none().then_some(key),
            b'\\' => key.push(bytes.next().filter(|byte| b"\"\\".contains(byte))?),
            byte => key.push(byte),
        }
    }
}

/// Returns the first half of the SHA-256 hash of the parts, separated by zero bytes. Neither a key
/// nor a client id contains a zero byte.
fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let hash = Sha256::digest(parts.join(&0));
    hash[..16].try_into().expect("it has thirty-two bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClientIdRule;

    #[test]
    fn the_stored_hashes_depend_on_the_client() {
        let client = |id| ClientIdRule::Text(1..=9).parse(id).unwrap();
        let once = |content: &[u8]| IdempotencyKey::new(b"order-4711", content).unwrap();

        assert_ne!(once(b"a").name(&client("one")), once(b"a").name(&client("two")));
        assert_ne!(once(b"a").digest(&client("one")), once(b"a").digest(&client("two")));
        assert_ne!(once(b"a").digest(&client("one")), once(b"b").digest(&client("one")));
    }

    #[test]
    fn a_key_has_1_to_255_visible_ascii_characters() {
        for key in ["a", "\"quoted\"", "8e03978e-40d5-43e8-bc93-6894a57f9324", &"x".repeat(255)] {
            assert!(IdempotencyKey::new(key.as_bytes(), b"").is_ok(), "{key:?}");
        }
        for key in ["", "a b", "é", "a\n", &"x".repeat(256), "\"", "\"\"", "\"a", "\"a\"b", r#""\a""#, "\"a b\""] {
            assert_eq!(IdempotencyKey::new(key.as_bytes(), b""), Err(InvalidKey), "{key:?}");
        }
    }

    #[test]
    fn a_key_in_quotes_equals_the_key_without_them() {
        for (quoted, key) in [("\"abc\"", "abc"), (r#""a\"\\b""#, "a\"\\b"), (r#""a;b=\"1\"""#, "a;b=\"1\"")] {
            let [quoted, plain] = [quoted, key].map(|key| IdempotencyKey::new(key.as_bytes(), b""));
            assert_eq!(quoted, plain, "{key}");
        }
    }
}
