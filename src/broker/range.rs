//! Checks numbers that a request names against the limits.

use super::Error;
use sukkal_domain::Limits;

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

/// Checks the limit of a page of queues, or of anything else that is listed in pages of the same
/// size. Returns the default without a limit.
pub(super) fn page_limit(limit: Option<i64>, limits: &Limits) -> Result<usize, Error> {
    Ok(match limit {
        Some(limit) => check_range("limit", limit, 1, limits.max_queues_per_page)?,
        None => limits.queues_per_page(),
    } as usize)
}
