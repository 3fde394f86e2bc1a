//! JSON as this API takes it: an object or array, integers of 64 signed bits, no `NaN`.

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::api::Error;
use crate::domain::{self, Body};

/// The shortest run of digits that can be beyond 64 signed bits.
const SUSPICIOUS_DIGITS: usize = 19;

/// The object or array that the bytes spell.
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    if has_oversized_integer(bytes) {
        return Err(Error::Body("JSON contains integer that is too large.".to_owned()));
    }
    match serde_json::from_slice(bytes) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => Ok(value),
        _ => Err(Error::Body("Request body could not be parsed.".to_owned())),
    }
}

/// A value as it is stored.
#[must_use]
pub fn to_body(value: &Value) -> Body {
    let msgpack = rmp_serde::to_vec(value).expect("JSON always has a MessagePack form");
    Body::from_msgpack(msgpack.into())
}

/// A stored value as it is shown.
#[must_use]
pub fn from_body(body: &Body) -> Value {
    rmp_serde::from_slice(body.as_msgpack()).expect("what is stored came from JSON")
}

/// The integer that a field of a document has.
pub fn integer(field: &str, value: &Value) -> Result<i64, Error> {
    domain::integer::integer(value)
        .ok_or_else(|| Error::Body(format!("The value of the \"{field}\" field must be a int.")))
}

/// A document for people, indented by four spaces as the reference implementation does.
#[must_use]
pub fn indented(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    document.serialize(&mut writer).expect("a tree always has a JSON form");
    bytes
}

/// The parser would silently take such an integer for a float.
fn has_oversized_integer(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at += string_length(&json[at..]),
            b'-' | b'0'..=b'9' => {
                let length = json[at..].iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                let number = &json[at..at + length];
                let is_integer = number.iter().all(|byte| b"-0123456789".contains(byte));
                if length >= SUSPICIOUS_DIGITS && is_integer && !fits(number) {
                    return true;
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    false
}

fn fits(integer: &[u8]) -> bool {
    std::str::from_utf8(integer).is_ok_and(|text| text.parse::<i64>().is_ok())
}

/// How many bytes the string at the front takes, its quotes included.
fn string_length(json: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = json.get(at) {
        match byte {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn refusal(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn integers_have_64_signed_bits() {
        assert_eq!(parse(b"[9223372036854775807, -9223372036854775808]").unwrap(), json!([i64::MAX, i64::MIN]));
        assert_eq!(parse(br#"["99999999999999999999\"9", 1.5e20]"#).unwrap()[1], json!(1.5e20));
        for text in ["[9223372036854775808]", "[-9223372036854775809]", r#"{"a": ["\\", 99999999999999999999]}"#] {
            assert_eq!(refusal(text), "JSON contains integer that is too large.", "{text}");
        }
    }

    #[test]
    fn what_is_no_object_or_array_is_refused() {
        for text in
            ["", "null", "5", "\"x\"", "[1", "[NaN]", "[Infinity]", "[1e400]", "[\"\\ud800\"]", "[\"a\nb\"]", "[1]x"]
        {
            assert_eq!(refusal(text), "Request body could not be parsed.", "{text}");
        }
        assert!(parse(b"[\"\xff\"]").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn the_last_of_two_equal_keys_counts_and_keys_keep_their_order() {
        let value = parse(br#"{"b": 1, "a": 2, "b": 3}"#).unwrap();

        assert_eq!(value.to_string(), r#"{"b":3,"a":2}"#);
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("JSON has no such number", |f| f.is_finite()).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((any::<String>(), inner), 0..6)
                    .prop_map(|keys| Value::Object(keys.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_body_comes_back_to_the_letter(value in any_json()) {
            let text = json!([value]).to_string();

            let stored = to_body(&parse(text.as_bytes()).unwrap());

            prop_assert_eq!(from_body(&stored).to_string(), text);
        }

        #[test]
        fn no_bytes_make_the_parser_stumble(bytes: Vec<u8>) {
            let _either = parse(&bytes);
        }
    }
}
