//! A search of the logs of all servers for secrets. A test fails if one of its servers has logged a
//! secret, so a run of all tests searches for every secret that is used in it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Shorter texts are also ordinary words in logs.
const BYTES_MIN: usize = 8;

/// The secrets that tests have chosen, in the whole run.
static CHOSEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Searches for the secrets in these environment variables of a server from now on.
pub(crate) fn note_environment(environment: &[(&str, &str)]) {
    for (name, value) in environment {
        let is_secret = ["KEY", "KEYS", "PASSWORD", "TOKEN"].iter().any(|ending| name.ends_with(ending));
        // The key of a certificate is a file.
        if is_secret && !value.starts_with('/') {
            value.split(',').for_each(|secret| note(secret.trim()));
        }
    }
}

/// Searches for the password in the URI of a store from now on.
pub(crate) fn note_store(uri: &str) {
    let credentials = uri.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    if let Some((_, password)) = credentials.and_then(|(credentials, _)| credentials.split_once(':')) {
        note(password);
    }
}

/// Searches for this secret from now on.
pub(crate) fn note(secret: &str) {
    if secret.len() >= BYTES_MIN {
        CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).insert(secret.to_owned());
    }
}

/// Returns the first line with a secret: one that a test has chosen, or one of the forms that
/// services issue.
pub(crate) fn find<'l>(lines: &'l [String]) -> Option<&'l str> {
    let chosen = CHOSEN.lock().unwrap_or_else(PoisonError::into_inner);
    let has_chosen = |line: &str| chosen.iter().any(|secret| line.contains(secret.as_str()));
    lines.iter().map(String::as_str).find(|line| has_issued(line) || has_chosen(line))
}

/// Whether the line has a secret of a form that Sukkal or an identity provider issues.
fn has_issued(line: &str) -> bool {
    let is_part = |byte: char| byte.is_ascii_alphanumeric() || "_-+/.".contains(byte);
    line.split(|byte| !is_part(byte)).any(|word| {
        let after = |start: &str| word.find(start).map_or(0, |position| word.len() - position - start.len());
        let is_jwt = after("eyJ") > 20 && word.contains('.');
        // Signatures of URLs, and hashes of tokens.
        let is_sha256 = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        // The id of an API key is no secret.
        after("whsec_") > 20 || after("skt_") > "01234567-89ab-cdef-0123-456789abcdef_".len() || is_jwt || is_sha256
    })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::support::sukkal::Sukkal;

    fn is_found(line: &str) -> bool {
        find(&[line.to_owned()]).is_some()
    }

    #[test]
    fn secrets_of_each_kind_are_found() {
        note_environment(&[("SUKKAL_SIGNED_URL__SECRET_KEY", "a secret of this test"), ("SUKKAL_TLS__KEY", "/a/file")]);
        note_environment(&[("SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS", "first of two, second of two")]);
        note_store("redis://user:password-of-this-test@127.0.0.1:6379");

        for line in [
            r#"{"fields":{"message":"a secret of this test"}}"#,
            "x second of two",
            "AUTH password-of-this-test",
            r#""secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw""#,
            "Bearer skt_4f1b2c3d-5e6f-4a7b-8c9d-0e1f2a3b4c5d_J0VZkqmcHgWbTs3yQhFZ1nB8xkq2m9LrDz6uE4aPwXo",
            "Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJzdWIiOiJtZSJ9.c2ln",
            "signature=6a63b2f5c2d3a4918f7e6d5c4b3a29181706f5e4d3c2b1a0998877665544332f",
        ] {
            assert!(is_found(line), "{line}");
        }
        for line in ["/a/file", "token skt_4f1b2c3d-5e6f-4a7b-8c9d-0e1f2a3b4c5d was deleted", "user 127.0.0.1:6379"] {
            assert!(!is_found(line), "{line}");
        }
    }

    #[tokio::test]
    async fn a_server_that_logs_a_secret_fails_its_test() {
        let secret = "a-secret-of-this-test-only";
        let sukkal = Sukkal::start_with("memory:", &[("SUKKAL_LOG__FILTER", "sukkal=debug")]);
        let path = format!("/v2/queues/{secret}");
        assert_eq!(sukkal.project("p").put(&path).send().await.unwrap().status(), 201);
        note(secret);

        let outcome = catch_unwind(AssertUnwindSafe(|| drop(sukkal)));

        assert!(outcome.is_err(), "the path is in the log");
    }
}
