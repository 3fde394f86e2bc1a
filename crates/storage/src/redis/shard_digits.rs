//! Shards in the four-digit form that scripts use: see `scripts/shared/fair.lua`.

use sukkal_domain::Shard;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_has_four_digits() {
        let written: Vec<u8> = (0..=1_024).flat_map(encode).collect();

        assert!(written.starts_with(b"000000010002") && written.ends_with(b"10231024"));
        assert_eq!(written.len(), 1_025 * SHARD_DIGITS);
    }
}
