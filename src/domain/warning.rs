//! Warnings: a request is accepted, but part of it has no effect. The API shows them in a header, so a warning is one short
//! line of printable ASCII, whatever the client has sent.

use std::fmt;

/// Maximum number of unknown metadata keys that get a warning each; one more warning counts the rest.
pub const UNKNOWN_KEYS_MAX: usize = 4;
/// Maximum number of characters of a client's text that a warning shows.
const SHOWN_CHARS_MAX: usize = 64;
/// From this similarity on (Jaro, 0 to 1) a known key is offered in place of an unknown one.
const SIMILARITY_MIN: f64 = 0.75;

/// Why a part of a request that was accepted has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A metadata key that begins with `_` and means nothing to the service.
    UnknownKey {
        /// The key.
        key: String,
        /// The known key that is most similar to it, if one is similar.
        nearest: Option<&'static str>,
    },
    /// As many unknown keys as this have no warning of their own.
    MoreUnknownKeys(usize),
    /// `_max_claim_count` is set, and `_dead_letter_queue` is not.
    NoDeadLetterQueue,
    /// A message has a `delay`, and its queue does not delay messages.
    DelayIgnored,
    /// The headers that may name the project name different ones.
    ProjectsDiffer {
        /// The header that counts.
        used: &'static str,
    },
}

/// A result with the warnings about its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warned<T> {
    /// The result.
    pub value: T,
    /// The warnings, most often none.
    pub warnings: Vec<Warning>,
}

impl Warning {
    /// The warnings about those of the keys that begin with `_` and are not among the known ones.
    pub(super) fn of_unknown_keys<'a>(keys: impl Iterator<Item = &'a str>, known: &[&'static str]) -> Vec<Self> {
        let mut unknown = keys.filter(|key| key.starts_with('_') && !known.contains(key));
        let named = unknown.by_ref().take(UNKNOWN_KEYS_MAX);
        let mut warnings: Vec<Self> =
            named.map(|key| Self::UnknownKey { key: key.to_owned(), nearest: nearest(key, known) }).collect();
        let more = unknown.count();
        if more > 0 {
            warnings.push(Self::MoreUnknownKeys(more));
        }
        warnings
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownKey { key, nearest } => {
                write!(f, "unknown metadata key \"{}\" has no effect; ", shown(key))?;
                match nearest {
                    Some(nearest) => write!(f, "did you mean \"{nearest}\"?"),
                    None => f.write_str("name keys of your own without a leading \"_\""),
                }
            }
            Self::MoreUnknownKeys(count) => write!(f, "{count} more unknown metadata keys have no effect"),
            Self::NoDeadLetterQueue => {
                f.write_str("\"_max_claim_count\" has no effect without \"_dead_letter_queue\"; set both")
            }
            Self::DelayIgnored => f.write_str(
                "\"delay\" is ignored, because the queue does not delay messages; set its \"_default_message_delay\" above 0",
            ),
            Self::ProjectsDiffer { used } => write!(
                f,
                "X-Project-ID, X-Tenant-Id and X-Tenant name different projects; {used} is used; send one of the headers"
            ),
        }
    }
}

/// A client's text in printable ASCII, cut off where it is long.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().map(char::escape_default) {
        if shown.len() + letter.len() > SHOWN_CHARS_MAX {
            return shown + "...";
        }
        shown.extend(letter);
    }
    shown
}

/// The known key that is most similar to a key, if one is similar. Keys longer than any known one are not compared in full.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let key: String = key.chars().take(SHOWN_CHARS_MAX).map(|letter| letter.to_ascii_lowercase()).collect();
    let similarity = |known: &&'static str| (strsim::jaro(&key, known), *known);
    let (similarity, nearest) = known.iter().map(similarity).max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (similarity >= SIMILARITY_MIN).then_some(nearest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Metadata;

    fn warnings(keys: &[&str]) -> Vec<String> {
        let keys = keys.iter().map(|key| ((*key).to_owned(), serde_json::json!(1))).collect();
        Metadata::from_store(keys).warnings().iter().map(Warning::to_string).collect()
    }

    #[test]
    fn a_misspelt_key_is_named_with_the_one_that_was_meant() {
        for (key, meant) in [
            ("_max_claim_cuont", "_max_claim_count"),
            ("_MAX_CLAIM_COUNT", "_max_claim_count"),
            ("_max-claim-count", "_max_claim_count"),
            ("_default_ttl", "_default_message_ttl"),
            ("_dead_letter", "_dead_letter_queue"),
            ("_encrypt", "_enable_encrypt_messages"),
            ("_shard", "_shards"),
        ] {
            let expected = format!("unknown metadata key \"{key}\" has no effect; did you mean \"{meant}\"?");
            assert_eq!(warnings(&[key]), [expected]);
        }
        for key in ["_", "_mine", "_flavor", "_ttl"] {
            let expected = "has no effect; name keys of your own without a leading \"_\"";
            assert_eq!(warnings(&[key]), [format!("unknown metadata key \"{key}\" {expected}")]);
        }
    }

    #[test]
    fn few_keys_are_named_and_the_rest_counted() {
        let warnings = warnings(&["mine", "_a", "_b", "_c", "_d", "_e", "_f"]);

        assert_eq!(warnings.len(), UNKNOWN_KEYS_MAX + 1);
        assert_eq!(warnings[UNKNOWN_KEYS_MAX], "2 more unknown metadata keys have no effect");
    }

    proptest! {
        #[test]
        fn a_warning_is_a_short_line_of_printable_ascii(key in "(?s)_.{0,200}") {
            for warning in warnings(&[&key]) {
                prop_assert!(warning.len() <= 256, "{} bytes", warning.len());
                prop_assert!(warning.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{:?}", warning);
            }
        }
    }
}
