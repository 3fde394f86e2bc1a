//! Warnings about accepted requests of which a part has no effect. The API returns them in a
//! header, so a warning is one short line of printable ASCII, whatever the client has sent.

use std::fmt;

/// Maximum number of unknown metadata keys with a warning each. One further warning counts the
/// other unknown keys.
pub const UNKNOWN_KEYS_MAX: usize = 4;
/// Maximum number of characters that a warning shows of a text from a client.
const SHOWN_CHARS_MAX: usize = 64;
/// Minimum Jaro similarity (0 to 1) at which a warning suggests a known key in place of an unknown
/// one.
const SIMILARITY_MIN: f64 = 0.75;

/// Reasons for which a part of an accepted request has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Warning {
    /// A metadata key begins with `_` but is not known.
    UnknownKey {
        /// The key.
        key: String,
        /// The most similar known key, if one is similar enough.
        nearest: Option<&'static str>,
    },
    /// Number of unknown keys without a warning of their own.
    MoreUnknownKeys(usize),
    /// `_max_claim_count` is set, but `_dead_letter_queue` is not.
    NoDeadLetterQueue,
    /// A message has a `delay`, but its queue does not delay messages.
    DelayIgnored,
    /// A pool was deleted that has queues or may have some.
    PoolRetired,
    /// The headers that can name the project name different ones.
    ProjectsDiffer {
        /// The header that is used.
        used: &'static str,
    },
}

/// A result, with the warnings about its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WithWarnings<T> {
    /// The result.
    pub value: T,
    /// The warnings; usually empty.
    pub warnings: Vec<Warning>,
}

impl Warning {
    /// Returns warnings about the keys that begin with `_` and are not known.
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
                "\"delay\" is ignored, because the queue does not delay messages; set its \"_enable_message_delay\" to true",
            ),
            Self::PoolRetired => f.write_str(
                "the pool may have queues; it gets no new ones, and keeps those that it has until they are moved or deleted",
            ),
            Self::ProjectsDiffer { used } => write!(
                f,
                "X-Project-ID, X-Tenant-Id and X-Tenant name different projects; {used} is used; send one of the headers"
            ),
        }
    }
}

/// Returns a text from a client in printable ASCII, truncated if it is long.
fn shown(text: &str) -> String {
    let mut shown = String::new();
    for character in text.chars().map(char::escape_default) {
        if shown.len() + character.len() > SHOWN_CHARS_MAX {
            return shown + "...";
        }
        shown.extend(character);
    }
    shown
}

/// Returns the most similar known key, if one is similar enough. Only the beginning of a long key
/// is compared.
fn nearest(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let key: String = key.chars().take(SHOWN_CHARS_MAX).map(|character| character.to_ascii_lowercase()).collect();
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
        let keys = keys.iter().map(|key| ((*key).to_owned(), serde_json::json!(1))).collect::<serde_json::Map<_, _>>();
        Metadata::from_store((&keys).into()).warnings(false).iter().map(Warning::to_string).collect()
    }

    #[test]
    fn an_unknown_key_is_reported_with_the_most_similar_known_key() {
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
    fn a_few_unknown_keys_are_named_and_the_others_counted() {
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
