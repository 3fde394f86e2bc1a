//! The `since` parameter: the time at which to start reading, in RFC 3339, or `now`.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Error;
use crate::broker::messages::Since;
use sukkal_domain::Rank;

const NOW: &str = "now";
const NANOS_IN_MICRO: i128 = 1_000;

/// Parses the parameter. Positions are microseconds, so a time between two microseconds is rounded
/// up.
pub fn parse(text: &str) -> Result<Since, Error> {
    if text == NOW {
        return Ok(Since::Now);
    }
    // A plus sign that the client did not encode was decoded as a space.
    let time = OffsetDateTime::parse(&text.replace(' ', "+"), &Rfc3339);
    let time = time.map_err(|_| Error::Parameter {
        name: "since".to_owned(),
        expected: "\"now\" or a time such as \"2026-11-22T12:00:00Z\"",
    })?;
    let micros = (time.unix_timestamp_nanos() + NANOS_IN_MICRO - 1).div_euclid(NANOS_IN_MICRO);
    Ok(Since::Time(u64::try_from(micros.max(0)).unwrap_or(u64::MAX)))
}

/// Returns the first time after a position.
#[must_use]
pub fn after(position: Rank) -> String {
    let nanos = (i128::from(position.micros()) + 1) * NANOS_IN_MICRO;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| NOW.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_after_a_position_is_one_microsecond_later() {
        for micros in [0, 1, 999_999, 1_795_341_895_123_456] {
            let position = Rank::new(micros).unwrap();

            assert_eq!(parse(&after(position)).unwrap(), Since::Time(micros + 1));
        }
    }

    #[test]
    fn a_time_between_two_positions_is_rounded_up() {
        for (text, micros) in [
            ("1970-01-01T00:00:00Z", 0),
            ("1969-12-31T23:59:59Z", 0),
            ("1970-01-01T00:00:00.0000001Z", 1),
            ("1970-01-01T00:00:00.000001Z", 1),
            ("1970-01-01T01:00:01+01:00", 1_000_000),
            ("1970-01-01T01:00:01 01:00", 1_000_000),
        ] {
            assert_eq!(parse(text).unwrap(), Since::Time(micros), "{text}");
        }
        for text in ["", "yesterday", "2026-11-22", "2026-11-22T12:00:00", "NOW"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
