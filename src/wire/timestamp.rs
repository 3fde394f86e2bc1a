//! Times as the API writes them.

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Returns a time in seconds since 1970 as text in UTC.
pub(super) fn timestamp(unix_s: u64) -> String {
    let time = i64::try_from(unix_s).ok().and_then(|unix_s| OffsetDateTime::from_unix_timestamp(unix_s).ok());
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
