//! What a message says: any JSON value, held as `MessagePack` from the moment it arrives.

use bytes::Bytes;

/// A JSON value, encoded as one `MessagePack` value. What is in here was checked when it came in.
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
}
