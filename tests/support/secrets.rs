//! A search of the logs of all servers for secrets. A test fails if one of its servers has logged a
//! secret, so a run of all tests searches for every secret that is used in it.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Shorter texts are also ordinary words in logs.
const BYTES_MIN: usize = 8;

/// The secrets that tests have chosen, in the whole run.
static CHOSEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Searches for the secrets in these environment variables of a server from now on.
pub fn note_environment(environment: &[(&str, &str)]) {
    for (name, value) in environment {
        let is_secret = ["KEY", "KEYS", "PASSWORD", "TOKEN"].iter().any(|ending| name.ends_with(ending));
        // The key of a certificate is a file.
        if is_secret && !value.starts_with('/') {
            value.split(',').for_each(|secret| note(secret.trim()));
        }
    }
}

/// Searches for the passwords in the URI of a store from now on.
pub fn note_store(uri: &str) {
    if let Some((_, password)) = uri.split_once("sentinel_password=") {
        note(password);
    }
    let credentials = uri.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
    if let Some((_, password)) = credentials.and_then(|(credentials, _)| credentials.split_once(':')) {
        note(password);
    }
}

/// Searches for this secret from now on.
pub fn note(secret: &str) {
    if secret.len() >= BYTES_MIN {
        CHOSEN.lock().unwrap_or_else(PoisonError::into_inner).insert(secret.to_owned());
    }
}

/// Returns the first line with a secret: one that a test has chosen, or one of the forms that
/// services issue.
pub fn find(lines: &[String]) -> Option<&str> {
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
