//! The lines of the audit log. The guide `docs/security.md` documents their keys.
//!
//! Clients choose many of the values, so each has a maximum length. A line is ASCII, so that no
//! value changes what a terminal shows.

use std::fmt::Write;
use std::net::IpAddr;

use serde::Serialize;
use time::OffsetDateTime;

use sukkal_domain::token::without_tokens;

/// Maximum length of a value, in characters.
const VALUE_CHARS_MAX: usize = 256;
/// Maximum length of a path, in characters.
const PATH_CHARS_MAX: usize = 512;
/// Maximum length of a role, in characters.
const ROLE_CHARS_MAX: usize = 64;
/// Maximum number of roles.
const ROLES_MAX: usize = 16;
/// Marks a value that was cut off.
const CUT_OFF: &str = "...";

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    /// The change was made.
    Success,
    /// The sender is not known, or may not do it.
    Refused,
    /// The policy allowed it, but it was not possible.
    Failed,
    /// The client disconnected before the outcome was known. The change may have been made.
    Unknown,
}

/// A record about a request. All keys are always present.
#[derive(Debug, Serialize)]
pub(super) struct Record {
    pub(super) time: String,
    pub(super) request_id: String,
    pub(super) strategy: Option<&'static str>,
    pub(super) subject: Option<String>,
    pub(super) roles: Vec<String>,
    pub(super) client_id: Option<String>,
    pub(super) own_project: Option<String>,
    pub(super) client_certificate: Option<String>,
    pub(super) peer: Option<IpAddr>,
    pub(super) action: Option<&'static str>,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) project: Option<String>,
    pub(super) queue: Option<String>,
    pub(super) other_project: bool,
    pub(super) location: Option<String>,
    pub(super) outcome: Outcome,
    pub(super) status: Option<u16>,
}

/// A record about records that are missing.
#[derive(Serialize)]
struct Omission {
    time: String,
    omitted: u64,
    reason: &'static str,
}

/// Returns the line of a record.
pub(super) fn line(record: &Record) -> String {
    ascii_line(serde_json::to_string(record).unwrap_or_default())
}

/// Returns the line that says how many records are missing, and why.
pub(super) fn omission(omitted: u64, reason: &'static str) -> String {
    ascii_line(serde_json::to_string(&Omission { time: now(), omitted, reason }).unwrap_or_default())
}

/// Returns the current time in UTC, with milliseconds (RFC 3339).
pub(super) fn now() -> String {
    let now = OffsetDateTime::now_utc();
    let ((year, month, day), (hour, minute, second, millisecond)) = (now.to_calendar_date(), now.to_hms_milli());
    let month = u8::from(month);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// Returns a value of a record.
pub(super) fn value(text: &str) -> String {
    cut(text, VALUE_CHARS_MAX)
}

/// Returns the roles of a record.
pub(super) fn roles(roles: &[String]) -> Vec<String> {
    let shown = roles.iter().take(ROLES_MAX).map(|role| cut(role, ROLE_CHARS_MAX));
    shown.chain((roles.len() > ROLES_MAX).then(|| CUT_OFF.to_owned())).collect()
}

/// Returns a path without its query, and without a token that is in it by mistake.
pub(super) fn path(path: &str) -> String {
    cut(&without_tokens(path.split('?').next().unwrap_or_default()), PATH_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}{CUT_OFF}", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns JSON as a line in ASCII. Other characters are only in strings, which can escape them.
fn ascii_line(json: String) -> String {
    let is_plain = |char: char| char.is_ascii() && !char.is_ascii_control();
    let mut line = if json.chars().all(is_plain) {
        json
    } else {
        let mut escaped = String::with_capacity(json.len() * 2);
        for char in json.chars() {
            if is_plain(char) {
                escaped.push(char);
                continue;
            }
            for unit in char.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(escaped, "\\u{unit:04x}");
            }
        }
        escaped
    };
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(subject: &str) -> Record {
        Record {
            time: now(),
            request_id: "req-1".to_owned(),
            strategy: Some("proxy"),
            subject: Some(value(subject)),
            roles: Vec::new(),
            client_id: None,
            own_project: None,
            client_certificate: None,
            peer: None,
            action: None,
            method: "PUT",
            path: path("/v2"),
            project: None,
            queue: None,
            other_project: false,
            location: None,
            outcome: Outcome::Unknown,
            status: None,
        }
    }

    #[test]
    fn a_line_is_ascii_without_control_characters_and_keeps_every_value() {
        for subject in ["a\nb\r\"\\", "\u{7f}\u{9b}31m\u{202e}\u{2028}", "café 🦀", "\u{fffd}\0"] {
            let line = line(&record(subject));

            let (text, end) = line.split_at(line.len() - 1);
            assert!(end == "\n" && text.chars().all(|char| char.is_ascii() && !char.is_ascii_control()), "{line:?}");
            let parsed: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(parsed["subject"], subject);
        }
    }

    #[test]
    fn values_have_a_maximum_length() {
        assert_eq!(value(&"é".repeat(256)), "é".repeat(256));
        assert_eq!(value(&"é".repeat(257)), "é".repeat(256) + "...");
        let many: Vec<String> = (0..17).map(|_| "r".repeat(65)).collect();
        let shown = roles(&many);
        assert_eq!((shown.len(), shown[0].len(), &shown[16][..]), (17, 67, "..."));
        assert_eq!(path(&"/x".repeat(9_000)).len(), 515);
        let longest = record(&"🦀".repeat(9_000));
        let longest = Record { roles: roles(&vec!["🦀".repeat(65); 99]), ..longest };
        assert!(line(&longest).len() < 20_000);
    }

    #[test]
    fn a_path_has_no_query_and_no_token() {
        assert_eq!(path("/v2/queues/q?url_signature=x"), "/v2/queues/q");
        assert_eq!(path("/v2/tokens/skt_4f1b_secret"), "/v2/tokens/skt_...");
    }

    #[test]
    fn a_time_has_milliseconds() {
        let time = now();
        assert_eq!((time.len(), &time[10..11], &time[19..20], &time[23..]), (24, "T", ".", "Z"));
    }
}
