//! Shards as scripts know them, in four digits each: see `scripts/shared/fair.lua`.

use crate::domain::Shard;
use crate::storage::Error;

/// Number of digits of a shard in scripts.
pub(super) const SHARD_DIGITS: usize = 4;

/// One shard behind the other.
pub(super) fn digits_of<'a>(shards: impl IntoIterator<Item = &'a Shard>) -> Vec<u8> {
    shards.into_iter().flat_map(|shard| digits(shard.number())).collect()
}

/// A number that has no more of them.
pub(super) fn digits(number: u16) -> [u8; SHARD_DIGITS] {
    [1_000, 100, 10, 1].map(|unit| b'0' + u8::try_from(number / unit % 10).expect("a digit is small"))
}

/// The numbers that stand there, one behind the other.
pub(super) fn numbers(digits: &[u8]) -> Result<Vec<u16>, Error> {
    let number = |digits: &[u8]| str::from_utf8(digits).ok()?.parse().ok();
    let read = digits.chunks(SHARD_DIGITS).map(number).collect::<Option<_>>();
    read.ok_or_else(|| Error::Corrupt(format!("an answer has {digits:?} where shards belong")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let all: Vec<u16> = (0..=1_024).collect();
        let written: Vec<u8> = all.iter().copied().flat_map(digits).collect();

        assert!(written.starts_with(b"000000010002") && written.ends_with(b"10231024"));
        assert_eq!(numbers(&written).unwrap(), all);
        assert!(numbers(b"0001x").is_err());
    }
}
