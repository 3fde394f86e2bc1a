//! The option `cors_origins`: `"*"` or a list of origins.

use serde::{Deserialize, Deserializer};
use toml::Value;

use sukkal_domain::options::Rule;
use sukkal_domain::options::rule::parse_list;
use sukkal_domain::web_origins::{InvalidWebOrigin, WebOrigins};

/// All origins.
const ANY: &str = "*";
const EXPECTED: &str = "it must be \"*\" or a list of origins such as \"http://localhost:3000\", each with its scheme and \
                        host, and its port unless that is the default, in lower case";
pub(super) const ORIGINS: Rule =
    Rule::Other { parse, check: |value| origins(value).map(drop).map_err(|_| EXPECTED.to_owned()), is_shown: true };

/// Converts the text of an environment variable: `*`, or origins that are separated by commas.
fn parse(text: &str) -> Value {
    if text == ANY { text.into() } else { parse_list(text) }
}

/// Reads the origins.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<WebOrigins>, D::Error> {
    origins(&Value::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

/// Returns the origins that a value allows, and `None` for an empty list.
fn origins(value: &Value) -> Result<Option<WebOrigins>, InvalidWebOrigin> {
    match value {
        Value::String(text) if text == ANY => Ok(Some(WebOrigins::Any)),
        Value::Array(items) => {
            let origins = items.iter().map(|item| item.as_str().ok_or(InvalidWebOrigin)?.parse());
            let origins = origins.collect::<Result<Vec<_>, _>>()?;
            Ok((!origins.is_empty()).then_some(WebOrigins::Listed(origins)))
        }
        _ => Err(InvalidWebOrigin),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_from_text() {
        let listed = |texts: &[&str]| WebOrigins::Listed(texts.iter().map(|text| text.parse().unwrap()).collect());
        for (text, expected) in [
            ("*", Ok(Some(WebOrigins::Any))),
            ("", Ok(None)),
            ("http://a", Ok(Some(listed(&["http://a"])))),
            ("http://a, https://b:1", Ok(Some(listed(&["http://a", "https://b:1"])))),
            ("http://a,*", Err(InvalidWebOrigin)),
            ("null", Err(InvalidWebOrigin)),
        ] {
            assert_eq!(origins(&parse(text)), expected, "{text:?}");
        }
        for value in [Value::String("http://a".to_owned()), Value::Array(vec![1.into()]), Value::Boolean(true)] {
            assert_eq!(origins(&value), Err(InvalidWebOrigin), "{value}");
        }
    }
}
