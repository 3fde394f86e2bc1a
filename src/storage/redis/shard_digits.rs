//! Shards in the four-digit form that scripts use: see `scripts/shared/fair.lua`.

use crate::domain::Shard;
use crate::storage::Error;

/// Number of digits of a shard in scripts.
pub(super) const SHARD_DIGITS: usize = 4;

/// Encodes shards one after the other.
pub(super) fn encode_all<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Vec<u8> {
    shards.into_iter().flat_map(|shard| encode(shard.number())).collect()
}

/// Encodes a number below 10,000.
pub(super) fn encode(number: u16) -> [u8; SHARD_DIGITS] {
    [1_000, 100, 10, 1].map(|unit| b'0' + u8::try_from(number / unit % 10).expect("a digit fits into a byte"))
}

/// Decodes numbers that are written one after the other.
pub(super) fn decode_all(digits: &[u8]) -> Result<Vec<u16>, Error> {
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse().ok();
    let read = digits.chunks(SHARD_DIGITS).map(number).collect::<Option<_>>();
    read.ok_or_else(|| Error::Corrupt(format!("a reply has {digits:?} instead of shards")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_reverses_encoding() {
        let all: Vec<u16> = (0..=1_024).collect();
        let written: Vec<u8> = all.iter().copied().flat_map(encode).collect();

        assert!(written.starts_with(b"000000010002") && written.ends_with(b"10231024"));
        assert_eq!(decode_all(&written).unwrap(), all);
        assert!(decode_all(b"0001x").is_err());
    }
}
