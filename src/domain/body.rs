//! What a message says: any JSON value, held as `MessagePack` from the moment it arrives.

use bytes::Bytes;

/// What a sealed body begins with: the mark of an extension value whose length takes four bytes. No JSON value
/// begins so.
const SEALED: u8 = 0xc9;
/// The extension type of sealed bodies.
const SEALED_TYPE: u8 = 1;
/// How many bytes stand before what is sealed: the mark, the length and the type.
const SEALED_HEAD: usize = 6;

/// A JSON value, encoded as one `MessagePack` value. What is in here was checked when it came in. Its bytes may be a part
/// of those that came with it, and keep them all in memory.
///
/// A body that is stored may be sealed: then it is one extension value of type 1, always with a length of four
/// bytes. What is inside, only who seals and opens it knows (`broker::cipher`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(Bytes);

impl Body {
    /// Wraps `MessagePack` that the wire or a store's record is known to hold.
    #[must_use]
    pub fn from_msgpack(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The `MessagePack` bytes.
    #[must_use]
    pub fn as_msgpack(&self) -> &[u8] {
        &self.0
    }

    /// A sealed body with this inside; `None` if that is longer than `MessagePack` has lengths for.
    #[must_use]
    pub fn sealed(inside: &[u8]) -> Option<Self> {
        let length = u32::try_from(inside.len()).ok()?;
        let mut bytes = Vec::with_capacity(SEALED_HEAD + inside.len());
        bytes.push(SEALED);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.push(SEALED_TYPE);
        bytes.extend_from_slice(inside);
        Some(Self(bytes.into()))
    }

    /// What is inside a sealed body; `None` for one that is not sealed.
    #[must_use]
    pub fn as_sealed(&self) -> Option<&[u8]> {
        (self.0.first() == Some(&SEALED)).then(|| self.0.get(SEALED_HEAD..).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_body_is_one_extension_value() {
        let body = Body::sealed(&[0xde, 0xad]).unwrap();

        assert_eq!(body.as_msgpack(), [0xc9, 0, 0, 0, 2, 1, 0xde, 0xad]);
        assert_eq!(body.as_sealed(), Some(&[0xde, 0xad][..]));
    }

    #[test]
    fn no_json_value_is_a_sealed_body() {
        for json in [serde_json::json!(null), serde_json::json!("\u{c9}"), serde_json::json!({"k": [1]})] {
            let body = Body::from_msgpack(rmp_serde::to_vec(&json).unwrap().into());

            assert_eq!(body.as_sealed(), None, "{json}");
        }
    }
}
