//! `mailto` URIs (RFC 6068) of subscribers that are notified by mail.

use std::borrow::Cow;

use lettre::Address;
use percent_encoding::percent_decode_str;
use thiserror::Error;

use super::mail_address::{ENCODED_WORD, parse_address};

/// The scheme.
pub const MAILTO: &str = "mailto";
/// Maximum number of addresses.
const RECIPIENTS_MAX: usize = 10;
/// Maximum length of a subject, in characters.
pub const SUBJECT_CHARS_MAX: usize = 200;
/// The only parameter that has a meaning.
const SUBJECT: &str = "subject";

/// The addresses of a subscriber, and the subject of its mails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailTo {
    /// At least one address.
    pub recipients: Vec<Address>,
    /// The subject, if the URI has one. It is one line.
    pub subject: Option<String>,
}

/// Reasons for which a `mailto` URI is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidMailTo {
    /// An address is not accepted.
    #[error(
        "the mail address number {number} of the subscriber is not accepted; it must be NAME@DOMAIN in ASCII, without quotes and {ENCODED_WORD:?}, and not at an IP address"
    )]
    Address {
        /// From 1.
        number: usize,
    },
    /// There are too many addresses.
    #[error("subscriber has {0} mail addresses; at most {RECIPIENTS_MAX} are allowed")]
    Count(usize),
    /// The URI has a parameter that is not known, or a fragment.
    #[error("subscriber has the parameter {0:?}; a mailto URI may only have the parameter subject")]
    Parameter(String),
    /// The URI has two subjects.
    #[error("subscriber has the parameter subject twice")]
    Subjects,
    /// The subject is not accepted.
    #[error(
        "the subject in the subscriber is not accepted; it must be one line of at most {SUBJECT_CHARS_MAX} characters without {ENCODED_WORD:?}"
    )]
    Subject,
    /// The URI is not encoded correctly.
    #[error("subscriber is not a URI: its percent-encoding is invalid")]
    Encoding,
}

impl MailTo {
    /// Parses what follows `mailto:`.
    pub fn parse(text: &str) -> Result<Self, InvalidMailTo> {
        if let Some((_, fragment)) = text.split_once('#') {
            return Err(InvalidMailTo::Parameter(format!("#{fragment}")));
        }
        let (path, query) = text.split_once('?').unwrap_or((text, ""));
        let count = path.split(',').count();
        if count > RECIPIENTS_MAX {
            return Err(InvalidMailTo::Count(count));
        }
        let address = |(index, part): (usize, &str)| {
            parse_address(&decode(part)?).ok_or(InvalidMailTo::Address { number: index + 1 })
        };
        let recipients = path.split(',').enumerate().map(address).collect::<Result<_, _>>()?;
        let mut subject = None;
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let name = decode(name)?;
            if !name.eq_ignore_ascii_case(SUBJECT) {
                return Err(InvalidMailTo::Parameter(name.into_owned()));
            }
            let value = decode(value)?;
            if !is_subject(&value) {
                return Err(InvalidMailTo::Subject);
            }
            if subject.replace(value.into_owned()).is_some() {
                return Err(InvalidMailTo::Subjects);
            }
        }
        Ok(Self { recipients, subject: subject.filter(|subject| !subject.is_empty()) })
    }

    /// Returns what follows `mailto:` in a URI; `None` if the URI has another scheme.
    #[must_use]
    pub fn of_uri(text: &str) -> Option<&str> {
        let (scheme, rest) = text.split_once(':')?;
        scheme.eq_ignore_ascii_case(MAILTO).then_some(rest)
    }
}

/// Returns whether a text can be the subject of a mail: one line of limited length. Mail programs
/// must show the same text.
#[must_use]
pub fn is_subject(text: &str) -> bool {
    let is_line_break = |character: char| matches!(character, '\u{2028}' | '\u{2029}');
    text.chars().count() <= SUBJECT_CHARS_MAX
        && !text.contains(|character: char| character.is_control() || is_line_break(character))
        && !text.contains(ENCODED_WORD)
}

/// Decodes a part of a URI.
fn decode(text: &str) -> Result<Cow<'_, str>, InvalidMailTo> {
    let is_hex = |digit: Option<char>| digit.is_some_and(|digit| digit.is_ascii_hexdigit());
    for (index, _) in text.match_indices('%') {
        let mut digits = text[index + 1..].chars();
        if !is_hex(digits.next()) || !is_hex(digits.next()) {
            return Err(InvalidMailTo::Encoding);
        }
    }
    percent_decode_str(text).decode_utf8().map_err(|_| InvalidMailTo::Encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_has_addresses_and_a_subject() {
        for (text, recipients, subject) in [
            ("a@b.example", vec!["a@b.example"], None),
            ("a@b.example?", vec!["a@b.example"], None),
            ("a%2bc@b.example,d@e.example?subject=", vec!["a+c@b.example", "d@e.example"], None),
            ("a%40b.example?Subject=50%25+1%26%C3%A4", vec!["a@b.example"], Some("50%+1&ä")),
            ("a@b.example?subject=a=b?c", vec!["a@b.example"], Some("a=b?c")),
        ] {
            let parsed = MailTo::parse(text).unwrap();

            let addresses: Vec<&str> = parsed.recipients.iter().map(AsRef::as_ref).collect();
            assert_eq!((addresses, parsed.subject.as_deref()), (recipients, subject), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_a_reason() {
        let many = ["a@b.example"; 11].join(",");
        let long = format!("a@b.example?subject={}", "x".repeat(201));
        for (text, reason) in [
            ("", "address number 1 of the subscriber is not accepted"),
            ("?subject=a", "address number 1"),
            (",", "address number 1"),
            ("a@b.example,", "address number 2"),
            ("//a@b.example", "address number 1"),
            ("a%0d%0aBcc:c@d.example@b.example", "address number 1"),
            ("a@b.example%0a", "address number 1"),
            ("a%00@b.example", "address number 1"),
            ("a@b.example%2Cc@d.example", "address number 1"),
            ("%22a%20b%22@b.example", "address number 1"),
            ("%C3%A9@b.example", "address number 1"),
            ("a%ZZ@b.example", "percent-encoding is invalid"),
            ("a%FF@b.example", "percent-encoding is invalid"),
            ("a@b.example%", "percent-encoding is invalid"),
            ("a@b.example?bcc=c@d.example", "the parameter \"bcc\""),
            ("a@b.example?to=c@d.example", "the parameter \"to\""),
            ("a@b.example?body=x", "the parameter \"body\""),
            ("a@b.example?subject=a&cc=c@d.example", "the parameter \"cc\""),
            ("a@b.example?subject=a&subject=b", "subject twice"),
            ("a@b.example?subject=a%0D%0ABcc:%20c@d.example", "must be one line"),
            ("a@b.example?subject=a%00", "must be one line"),
            ("a@b.example?subject=%E2%80%A8", "must be one line"),
            ("a@b.example?subject==?utf-8?q?=0d=0aBcc:c@d.example?=", "characters without \"=?\""),
            ("=%3Futf-8%3Fq%3Fc=40d%3F=@b.example", "without quotes and \"=?\""),
            ("a@b.example#c", "the parameter \"#c\""),
            (&long, "at most 200 characters"),
            (&many, "has 11 mail addresses; at most 10"),
        ] {
            let error = MailTo::parse(text).map_or_else(|error| error.to_string(), |_| panic!("{text} is accepted"));
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
