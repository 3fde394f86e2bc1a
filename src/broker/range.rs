//! Checks numbers and lists of ids in a request against the limits.

use super::Error;
use sukkal_domain::limits::page_default;
use sukkal_domain::{MessageId, QueueId};

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

/// Checks the number of entries that a page may have. Returns the default without a number.
pub(super) fn page_limit(limit: Option<i64>, max: u32) -> Result<usize, Error> {
    let limit = limit.map_or(Ok(page_default(max)), |limit| check_range("limit", limit, 1, max))?;
    Ok(limit as usize)
}

/// Checks the number of ids in a request.
pub(super) fn check_ids(ids: &[String], max: u32) -> Result<(), Error> {
    if (1..=max as usize).contains(&ids.len()) {
        return Ok(());
    }
    Err(Error::Limit(format!("\"ids\" has {} ids; it must have between 1 and {max}", ids.len())))
}

/// Returns the ids in the order of the feed, each once.
///
/// # Errors
///
/// [`Error::Limit`] if there are none or too many, or if one is not an id of this queue.
pub(super) fn own_ids(queue: &QueueId, ids: &[String], max: u32) -> Result<Vec<MessageId>, Error> {
    check_ids(ids, max)?;
    let unknown = |id: &String| Error::Limit(format!("\"ids\" contains {id:?}, which is no message id of this queue"));
    let parsed = ids.iter().map(|id| MessageId::parse(id, queue).ok_or_else(|| unknown(id)));
    let mut parsed = parsed.collect::<Result<Vec<_>, _>>()?;
    parsed.sort_unstable();
    parsed.dedup();
    Ok(parsed)
}
