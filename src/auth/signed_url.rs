//! Pre-signed URLs: the holder of one may use some methods on some paths of one project until it
//! expires.
//!
//! URLs are not stored: a URL is valid if its signature is. The signed text has the form of the
//! reference implementation, so each implementation accepts the URLs of the other.

use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::{Choice, ConstantTimeEq};
use thiserror::Error;
use time::format_description::well_known::Iso8601;
use time::parsing::Parsed;
use time::{Duration, OffsetDateTime};

use sukkal_domain::{ProjectId, Secret};

/// Validity of a URL that does not specify its expiry.
const DEFAULT_LIFE: Duration = Duration::DAY;

/// The access that a URL gives. The parts before and after the project cannot contain the separator
/// of the signed text, so two different URLs never have the same signed text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedUrl {
    paths: Vec<String>,
    methods: Vec<String>,
    project: ProjectId,
    expiry: Expiry,
}

/// The time at which a URL expires: a whole second, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expiry(OffsetDateTime);

/// Signs URLs with the operator's secret key, and verifies signatures. During a rotation, it also
/// accepts those of a second key.
#[derive(Clone)]
pub struct Signer {
    key: Hmac<Sha256>,
    accepted: Option<Hmac<Sha256>>,
}

/// Why a URL cannot be signed.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidSignedUrl {
    /// A method is not an HTTP token, or in lower case.
    #[error("methods contains {0:?}, which is not an HTTP method in upper case")]
    Method(String),
    /// A path does not begin with a slash, or has a comma or backslash.
    #[error("paths contains {0:?}, which is not a path")]
    Path(String),
    /// The expiry is not a time.
    #[error("expires is {0:?}; it must be a time such as 2030-01-01T00:00:00, in UTC or with an offset such as +02:00")]
    Time(String),
    /// The expiry is not in the future.
    #[error("expires is {0}; it must be in the future")]
    Expired(Expiry),
}

impl SignedUrl {
    /// Creates a URL that is valid at the time `now`.
    pub fn new(
        mut paths: Vec<String>,
        mut methods: Vec<String>,
        project: ProjectId,
        expiry: Expiry,
        now: OffsetDateTime,
    ) -> Result<Self, InvalidSignedUrl> {
        if let Some(path) = paths.iter().find(|path| !is_path(path)) {
            return Err(InvalidSignedUrl::Path(path.clone()));
        }
        if let Some(method) = methods.iter().find(|method| !is_method(method)) {
            return Err(InvalidSignedUrl::Method(method.clone()));
        }
        if expiry.0 <= now {
            return Err(InvalidSignedUrl::Expired(expiry));
        }
        paths.sort();
        methods.sort();
        Ok(Self { paths, methods, project, expiry })
    }

    /// Returns whether the URL allows a request: its exact method, and its path or a prefix of the
    /// path. `segments` are the decoded segments of the path, so that the encoding of the path does
    /// not matter. No URL allows the list of claims, because the id of a claim gives access to its
    /// messages.
    #[must_use]
    pub fn allows(&self, method: &str, segments: &[impl AsRef<str>]) -> bool {
        self.methods.iter().any(|allowed| allowed == method)
            && self.paths.iter().any(|path| covers(path, segments))
            && !lists_claims(method, segments)
    }

    /// Returns whether the URL is for exactly one path, which has these segments.
    #[must_use]
    pub fn is_for(&self, segments: &[impl AsRef<str>]) -> bool {
        matches!(&self.paths[..], [path] if covers(path, segments) && path.split('/').skip(1).count() == segments.len())
    }

    /// Returns the paths, sorted.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Returns the methods, sorted.
    #[must_use]
    pub fn methods(&self) -> &[String] {
        &self.methods
    }

    /// Returns the project that owns the paths.
    #[must_use]
    pub fn project(&self) -> &ProjectId {
        &self.project
    }

    /// Returns the time at which the URL expires.
    #[must_use]
    pub fn expiry(&self) -> Expiry {
        self.expiry
    }

    /// Returns the text that is signed. The separator is a backslash and an `n`, as in Zaqar, not a
    /// line break.
    fn signed_text(&self) -> String {
        [&self.paths.join(","), &self.methods.join(","), self.project.as_str(), &self.expiry.to_string()].join("\\n")
    }
}

/// Returns whether the text is a path without a comma and a backslash, which separate the parts of
/// the signed text.
fn is_path(text: &str) -> bool {
    text.starts_with('/') && !text.contains([',', '\\'])
}

/// Returns whether the text is an HTTP token, which has no comma and no backslash.
fn is_method(text: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_token)
}

/// Returns whether a request lists the claims of a queue. `HEAD` reaches the same operation as
/// `GET`.
fn lists_claims(method: &str, segments: &[impl AsRef<str>]) -> bool {
    let is_read = ["GET", "HEAD"].contains(&method);
    is_read && matches!(segments, [_v2, _queues, _name, claims] if claims.as_ref() == "claims")
}

/// Returns whether the segments begin with all segments of the path.
fn covers(path: &str, segments: &[impl AsRef<str>]) -> bool {
    let mut rest = segments.iter();
    path.split('/').skip(1).all(|wanted| rest.next().is_some_and(|segment| segment.as_ref() == wanted))
}

impl Expiry {
    /// Returns the default expiry of a URL that is created at the time `now`.
    #[must_use]
    pub fn by_default(now: OffsetDateTime) -> Self {
        Self(now + DEFAULT_LIFE)
    }

    /// Returns the expiry of a URL that is valid from `now` for this time, at most until the end of
    /// the year 9999.
    #[must_use]
    pub fn after(now: OffsetDateTime, valid: Duration) -> Self {
        let expiry = now.saturating_add(valid);
        Self(expiry.replace_nanosecond(0).unwrap_or(expiry))
    }
}

impl From<Expiry> for SystemTime {
    fn from(expiry: Expiry) -> Self {
        expiry.0.into()
    }
}

impl FromStr for Expiry {
    type Err = InvalidSignedUrl;

    /// Parses ISO 8601: a date with an optional time and an optional offset from UTC.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || InvalidSignedUrl::Time(text.to_owned());
        // ISO 8601 accepts 20300101 as a date, but a client that sends a number means seconds.
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(invalid());
        }
        let midnight_in_utc = Parsed::new()
            .with_hour_24(0)
            .and_then(|parsed| parsed.with_minute(0)?.with_second(0)?.with_offset_hour(0))
            .ok_or_else(invalid)?;
        let iso = text.replacen(' ', "T", 1);
        let time = OffsetDateTime::parse_with_defaults(iso.as_bytes(), &Iso8601::PARSING, midnight_in_utc);
        let seconds = time.map_err(|_| invalid())?.unix_timestamp();
        OffsetDateTime::from_unix_timestamp(seconds).map(Self).map_err(|_| invalid())
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (date, (hour, minute, second)) = (self.0.date(), self.0.to_hms());
        let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
    }
}

impl Signer {
    /// Creates a signer with the secret key; `None` if the key is empty.
    #[must_use]
    pub fn new(secret: &Secret) -> Option<Self> {
        Some(Self { key: hmac(secret)?, accepted: None })
    }

    /// Also accepts URLs that were signed with this key, if it is not empty.
    #[must_use]
    pub fn accepting(self, secret: &Secret) -> Self {
        Self { accepted: hmac(secret), ..self }
    }

    /// Returns the signature of the URL.
    #[must_use]
    pub fn sign(&self, url: &SignedUrl) -> String {
        signature_of(&self.key, url)
    }

    /// Returns whether the signature is that of the URL, with one of the keys. The comparison takes
    /// constant time.
    #[must_use]
    pub fn verify(&self, url: &SignedUrl, signature: &str) -> bool {
        let keys = [Some(&self.key), self.accepted.as_ref()].into_iter().flatten();
        let mut is_valid = Choice::from(0);
        for key in keys {
            is_valid |= signature_of(key, url).as_bytes().ct_eq(signature.as_bytes());
        }
        is_valid.into()
    }
}

/// Returns the key as HMAC uses it; `None` if it is empty.
fn hmac(secret: &Secret) -> Option<Hmac<Sha256>> {
    let key = secret.reveal()?.as_bytes();
    Some(Hmac::new_from_slice(key).expect("HMAC takes keys of any length"))
}

fn signature_of(key: &Hmac<Sha256>, url: &SignedUrl) -> String {
    let tag = key.clone().chain_update(url.signed_text()).finalize().into_bytes();
    let digits = tag.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    digits.map(|digit| char::from_digit(digit.into(), 16).expect("four bits are one digit")).collect()
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPIRES: &str = "2030-01-01T00:00:00";

    fn now() -> OffsetDateTime {
        "2026-11-20T12:00:00".parse::<Expiry>().unwrap().0
    }

    fn url(paths: &str, methods: &str, project: &str, expires: &str) -> Result<SignedUrl, InvalidSignedUrl> {
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        SignedUrl::new(list(paths), list(methods), ProjectId::new(project).unwrap(), expires.parse()?, now())
    }

    fn signer(secret: &str) -> Signer {
        Signer::new(&Secret::new(secret)).unwrap()
    }

    #[test]
    fn a_url_is_for_a_path_if_it_has_no_other_one_and_none_above_it() {
        for (paths, path, expected) in [
            ("/v2/queues/q/confirm", "/v2/queues/q/confirm", true),
            ("/v2/queues/q", "/v2/queues/q/confirm", false),
            ("/", "/v2/queues/q/confirm", false),
            ("/v2/queues/q/confirm/x", "/v2/queues/q/confirm", false),
            ("/v2/queues/q/confirm,/v2/queues/q", "/v2/queues/q/confirm", false),
        ] {
            let segments: Vec<&str> = path.split('/').skip(1).collect();
            assert_eq!(url(paths, "PUT", "p1", EXPIRES).unwrap().is_for(&segments), expected, "{paths}");
        }
    }

    /// Row 9-11.
    #[test]
    fn the_signature_is_that_of_the_reference() {
        let url = url("/v2/queues/s1/messages", "GET", "p1", EXPIRES).unwrap();

        let signature = signer("SECRET").sign(&url);

        assert_eq!(signature, "13e62705ee7b51d9b5e125d713da7cdb2ae9703c830eb85c5116536212e0dbb1");
        assert!(signer("SECRET").verify(&url, &signature));
    }

    #[test]
    fn only_the_exact_signature_is_valid() {
        let url = url("/a", "GET", "p", EXPIRES).unwrap();
        let signature = signer("SECRET").sign(&url);

        for wrong in ["", "0", &signature[1..], &signature.to_uppercase(), &format!("{signature}0"), &"0".repeat(64)] {
            assert!(!signer("SECRET").verify(&url, wrong), "{wrong}");
        }
        assert!(!signer("secret").verify(&url, &signature));
        assert!(Signer::new(&Secret::new("")).is_none());
        assert!(!format!("{:?}", signer("SECRET")).contains("SECRET"));
    }

    #[test]
    fn two_keys_are_valid_during_a_rotation() {
        let url = url("/a", "GET", "p", EXPIRES).unwrap();
        let [old, new] = ["OLD", "NEW"].map(signer);
        let rotating = new.clone().accepting(&Secret::new("OLD"));

        assert_eq!(rotating.sign(&url), new.sign(&url));
        assert!(rotating.verify(&url, &old.sign(&url)) && rotating.verify(&url, &new.sign(&url)));
        assert!(!rotating.verify(&url, &signer("OTHER").sign(&url)));
        assert!(!new.clone().accepting(&Secret::new("")).verify(&url, &old.sign(&url)));
    }

    #[test]
    fn times_are_parsed_in_utc_as_whole_seconds() {
        for (text, shown) in [
            ("2030-01-01", "2030-01-01T00:00:00"),
            ("2030-01-01T10:30", "2030-01-01T10:30:00"),
            ("2030-01-01 10:30:07", "2030-01-01T10:30:07"),
            ("2030-01-01T10:30:07.999999", "2030-01-01T10:30:07"),
            ("2030-01-01T10:30:07Z", "2030-01-01T10:30:07"),
            ("2030-01-01T00:30:07+02:00", "2029-12-31T22:30:07"),
            ("2030-01-01T10:30:07-0130", "2030-01-01T12:00:07"),
        ] {
            assert_eq!(text.parse::<Expiry>().map(|expiry| expiry.to_string()), Ok(shown.to_owned()), "{text}");
        }
        for text in [
            "",
            "1900000000",
            "1900000000.5",
            "20300101",
            "tomorrow",
            "2030-13-01",
            "2030-02-30",
            "2030-01-01T",
            "2030-01-01T25:00:00",
            "2030-01-01T00:00:00 UTC",
            "2030-01-01T00:00:00+99:00",
            "9999-12-31T23:59:59-01:00",
        ] {
            assert_eq!(text.parse::<Expiry>(), Err(InvalidSignedUrl::Time(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn the_expiry_is_in_the_future() {
        for over in ["2026-11-20T12:00:00", "2026-11-20T12:00:00.9", "2020-01-01", "0000-01-01"] {
            assert!(matches!(url("/a", "GET", "p", over), Err(InvalidSignedUrl::Expired(_))), "{over}");
        }
        assert!(url("/a", "GET", "p", "2026-11-20T12:00:01").is_ok());
        assert_eq!(Expiry::by_default(now()).to_string(), "2026-11-21T12:00:00");
    }

    /// Projects that contain separators and other parts of a signed text.
    fn tricky_project() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            3 => Just("\\n".to_owned()),
            1 => prop::sample::select(vec!["GET", "/a", "\\", ",", EXPIRES]).prop_map(str::to_owned),
            1 => "[a-c]{1,2}",
        ];
        prop::collection::vec(piece, 1..6).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_signed_text_has_only_one_url(
            paths in "/[ab](,/[ab])?", methods in "(GET|PUT)(,POST)?", project in tricky_project(),
        ) {
            let signed = url(&paths, &methods, &project, EXPIRES).unwrap();
            let text = signed.signed_text();
            let cuts: Vec<usize> = text.match_indices("\\n").map(|(at, _)| at).collect();

            for first in &cuts {
                for second in cuts.iter().filter(|second| **second >= first + 2) {
                    for third in cuts.iter().filter(|third| **third > second + 2) {
                        let (project, expires) = (&text[second + 2..*third], &text[third + 2..]);
                        let read = url(&text[..*first], &text[first + 2..*second], project, expires);
                        prop_assert!(read.as_ref() == Ok(&signed) || read.is_err(), "{text} as {read:?}");
                    }
                }
            }
        }

        #[test]
        fn different_urls_have_different_signatures(
            signed in ("/[ab]{1,2}(,/c)?", "(GET|PUT)(,POST)?", "[pq]{1,2}", "203[01]-01-0[12]"),
            shown in ("/[ab]{1,2}(,/c)?", "(GET|PUT)(,POST)?", "[pq]{1,2}", "203[01]-01-0[12]"),
        ) {
            let url_of = |(paths, methods, project, expires): &(String, String, String, String)| {
                url(paths, methods, project, expires).unwrap()
            };
            let signature = signer("SECRET").sign(&url_of(&signed));

            prop_assert!(signer("SECRET").verify(&url_of(&signed), &signature));
            prop_assert_eq!(signer("SECRET").verify(&url_of(&shown), &signature), shown == signed);
        }
    }
}
