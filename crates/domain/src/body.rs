//! The body of a message: any JSON value, kept as `MessagePack` from the request to the response.

use bytes::Bytes;

use super::msgpack;

/// First byte of a sealed body: the marker of an extension value with a length of four bytes. No
/// JSON value begins with this byte.
const SEALED: u8 = 0xc9;
/// Extension type of sealed bodies.
const SEALED_TYPE: u8 = 1;
/// Number of bytes before the sealed content: the marker, the length and the type.
const SEALED_HEAD: usize = 6;

/// A JSON value, encoded as one `MessagePack` value that was validated when it arrived.
///
/// The bytes may be a slice of a larger buffer, such as the request body, which then stays in
/// memory.
///
/// A stored body may be sealed. It is then one extension value of type 1, always with a length of
/// four bytes. Only `broker::encryption`, which seals and opens bodies, knows the format of the
/// sealed content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body(Bytes);

impl Body {
    /// Wraps bytes that are known to be one valid `MessagePack` value, from the wire format or a
    /// store's record.
    #[must_use]
    pub fn from_msgpack(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// Returns the `MessagePack` bytes.
    #[must_use]
    pub fn as_msgpack(&self) -> &[u8] {
        &self.0
    }

    /// Returns a sealed body with this content, or `None` if the content is too long for a
    /// `MessagePack` length.
    #[must_use]
    pub fn sealed(content: &[u8]) -> Option<Self> {
        let length = u32::try_from(content.len()).ok()?;
        let mut bytes = Vec::with_capacity(SEALED_HEAD + content.len());
        bytes.push(SEALED);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.push(SEALED_TYPE);
        bytes.extend_from_slice(content);
        Some(Self(bytes.into()))
    }

    /// Returns the length in bytes of the sealed body at the beginning of these bytes, or `None` if
    /// they do not begin with a complete one.
    #[must_use]
    pub fn sealed_length(bytes: &[u8]) -> Option<usize> {
        let (head, rest) = bytes.split_first_chunk::<SEALED_HEAD>()?;
        let content = usize::try_from(u32::from_be_bytes([head[1], head[2], head[3], head[4]])).ok()?;
        (head[0] == SEALED && content <= rest.len()).then_some(SEALED_HEAD + content)
    }

    /// Returns whether the body is sealed, or is a value that every reader of JSON can read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        Self::sealed_length(&self.0) == Some(self.0.len()) || msgpack::is_json(&self.0)
    }

    /// Returns the content of a sealed body, or `None` if the body is not sealed.
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
        assert_eq!(Body::sealed_length(&[body.as_msgpack(), &[1, 2]].concat()), Some(8));
        assert_eq!(Body::sealed_length(&body.as_msgpack()[..7]), None);
    }

    #[test]
    fn a_json_value_is_not_a_sealed_body() {
        for json in [serde_json::json!(null), serde_json::json!("\u{c9}"), serde_json::json!({"k": [1]})] {
            let body = Body::from_msgpack(rmp_serde::to_vec(&json).unwrap().into());

            assert_eq!(body.as_sealed(), None, "{json}");
        }
    }
}
