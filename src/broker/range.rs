//! Checks numbers that a request names against the limits.

use super::Error;

/// Returns the value if it is in the range.
///
/// # Errors
///
/// [`Error::Limit`], which names the parameter, the value and the range.
pub(super) fn check_range(parameter: &str, value: i64, min: u32, max: u32) -> Result<u32, Error> {
    match u32::try_from(value) {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => Err(Error::Limit(format!("{parameter} is {value}; it must be between {min} and {max}"))),
    }
}
