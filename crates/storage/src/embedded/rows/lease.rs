//! A lease keeps messages in flight until it ends.

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::{self, Key, Part};
use sukkal_domain::ClaimId;

/// The reason why messages are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lease {
    /// They are claimed.
    Claim(ClaimId),
    /// This message was returned with a delay.
    Returned(Key),
}

/// First byte of the lease of a returned message. Such a lease is shorter than that of a claim.
const RETURNED: u8 = b'~';

impl Lease {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Claim(claim) => claim.as_bytes().to_vec(),
            Self::Returned(key) => [&[RETURNED], &key[..]].concat(),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        if let Ok(claim) = bytes.try_into() {
            return Ok(Self::Claim(ClaimId::from_bytes(claim)));
        }
        let key = bytes.strip_prefix(&[RETURNED]).and_then(|key| key.try_into().ok());
        key.map(Self::Returned).ok_or_else(|| damaged("a lease"))
    }
}

pub(crate) fn lease_key(number: u64, end_us: u64, lease: Lease) -> Vec<u8> {
    keys::timed(number, Part::Lease, end_us, &lease.encode())
}
