//! Times that options have, with or without a unit.

use std::time::Duration;

/// Parses a time in seconds, such as `90`, `15m` or `7 days`.
pub fn seconds(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let unit = match unit.trim() {
        "" | "s" | "sec" | "second" | "seconds" => Some(1),
        "m" | "min" | "minute" | "minutes" => Some(60),
        "h" | "hour" | "hours" => Some(3_600),
        "d" | "day" | "days" => Some(86_400),
        "w" | "week" | "weeks" => Some(604_800),
        _ => None,
    };
    let seconds = number.parse::<u64>().ok().zip(unit).and_then(|(number, unit)| number.checked_mul(unit));
    seconds.ok_or_else(|| "it must be a number of seconds, or such as 90s, 15m, 12h or \"7 days\"".to_owned())
}

/// Parses the same, or a number of seconds with a fraction.
pub fn duration(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string()),
        Err(_) => seconds(text).map(Duration::from_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_may_have_a_fraction() {
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        assert!(duration("-1").is_err() && duration("nan").is_err());
    }

    #[test]
    fn a_time_is_a_number_of_seconds_or_has_a_unit() {
        for (text, expected) in [
            ("90", Some(90)),
            ("0", Some(0)),
            ("90s", Some(90)),
            ("15m", Some(900)),
            ("1h", Some(3_600)),
            (" 7 days ", Some(604_800)),
            ("2w", Some(1_209_600)),
            ("", None),
            ("h", None),
            ("-1", None),
            ("1.5h", None),
            ("1h30m", None),
            ("1month", None),
            ("1M", None),
            ("18446744073709551615m", None),
        ] {
            assert_eq!(seconds(text).ok(), expected, "{text:?}");
        }
    }
}
