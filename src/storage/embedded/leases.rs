//! Leases: what keeps messages in flight until it ends.

use super::failure::damaged;
use super::keys::Key;
use crate::domain::ClaimId;
use crate::storage::Error;

/// What keeps messages in flight until it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lease {
    /// A claim.
    Claim(ClaimId),
    /// The delay with which this message was returned.
    Returned(Key),
}

/// First byte of the lease of a returned message, which makes it shorter than a claim's.
const RETURNED: u8 = b'~';

impl Lease {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Claim(claim) => claim.as_bytes().to_vec(),
            Self::Returned(key) => [&[RETURNED], &key[..]].concat(),
        }
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if let Ok(claim) = bytes.try_into() {
            return Ok(Self::Claim(ClaimId::from_bytes(claim)));
        }
        let key = bytes.strip_prefix(&[RETURNED]).and_then(|key| key.try_into().ok());
        key.map(Self::Returned).ok_or_else(|| damaged("a lease"))
    }
}
