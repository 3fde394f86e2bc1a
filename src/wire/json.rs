//! The JSON that the API accepts: an object or array, with integers of at most 64 signed bits and
//! without `NaN`.

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value};

use super::Error;
use sukkal_base::text::{is_utf_16, without_mark};
use sukkal_domain::msgpack::{self, Converted, Reader, Token};
use sukkal_domain::warning::{NameKind, of_unknown};
use sukkal_domain::{Body, Warning};

/// Minimum number of digits of an integer that does not fit into 64 signed bits.
const OVERSIZED_DIGITS_MIN: usize = 19;
/// Maximum number of values of a document that becomes a tree.
const VALUES_MAX: u64 = 4_000;

/// Parses an object or array. It may have at most 4,000 values, because their tree takes up to a
/// hundred times the memory of the text.
pub fn parse(bytes: &[u8]) -> Result<Value, Error> {
    let msgpack = parse_to_msgpack(bytes)?;
    check_values(&msgpack)?;
    Ok(from_msgpack(&msgpack))
}

/// Parses a body that must be an object.
pub(super) fn parse_object(bytes: &[u8]) -> Result<Map<String, Value>, Error> {
    parse_object_or(bytes, || Error::Body("Document type not supported.".to_owned()))
}

/// Parses a body that must be an object. `other` is the error for another document.
pub(super) fn parse_object_or(bytes: &[u8], other: impl FnOnce() -> Error) -> Result<Map<String, Value>, Error> {
    match parse(bytes)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(other()),
    }
}

/// Returns the texts of a list; `None` if the value is not a list of texts.
pub(super) fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Succeeds if a document, as `MessagePack`, may become a tree.
pub(super) fn check_values(msgpack: &[u8]) -> Result<(), Error> {
    check_count(msgpack::extent(msgpack).0)
}

/// Succeeds if a document with this number of values at all levels may become a tree.
pub(super) fn check_count(values: u64) -> Result<(), Error> {
    if values > VALUES_MAX {
        return Err(Error::Body(format!(
            "The request body has {values} values at all levels; at most {VALUES_MAX} are allowed."
        )));
    }
    Ok(())
}

/// Parses an object or array into the `MessagePack` of the tree that [`parse`] returns.
pub fn parse_to_msgpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    let Converted { msgpack, .. } = parse_value(bytes)?;
    let is_document = matches!(Reader::new(&msgpack).token(), Some(Token::Object(_) | Token::Array(_)));
    if is_document { Ok(msgpack) } else { Err(invalid(bytes, None)) }
}

/// Parses any value into its `MessagePack`. A byte order mark before it has no meaning.
pub(super) fn parse_value(bytes: &[u8]) -> Result<Converted, Error> {
    let bytes = without_mark(bytes);
    let is_oversized = |suspected: bool| suspected && has_oversized_integer(bytes);
    match msgpack::from_json(bytes) {
        Ok(converted) if !is_oversized(converted.may_have_oversized_integers) => Ok(converted),
        converted => Err(invalid(bytes, converted.err())),
    }
}

/// Returns the error for bytes that are not accepted, with the message of the parser. Without a
/// parser error, the bytes are a single value.
fn invalid(bytes: &[u8], error: Option<serde_json::Error>) -> Error {
    if is_utf_16(bytes) {
        return Error::Body("Request body could not be parsed. It is in UTF-16; send it in UTF-8.".to_owned());
    }
    if has_oversized_integer(bytes) {
        return Error::Body("JSON contains integer that is too large.".to_owned());
    }
    let reason = error.map_or_else(
        || "It must be an object or an array.".to_owned(),
        |error| {
            let (line, column) = (error.line(), error.column());
            let text = error.to_string();
            let message = text.strip_suffix(&format!(" at line {line} column {column}")).unwrap_or(&text);
            format!("Line {line}, column {column}: {message}.")
        },
    );
    Error::Body(format!("Request body could not be parsed. {reason}"))
}

/// Returns the tree of a value that was just written as `MessagePack`.
pub(super) fn from_msgpack(msgpack: &[u8]) -> Value {
    rmp_serde::from_slice(msgpack).expect("JSON always has a MessagePack form")
}

/// Returns a value that is neither an array nor an object; `null` for those, whose tree could be
/// large.
pub(super) fn scalar_from_msgpack(msgpack: &[u8]) -> Value {
    match Reader::new(msgpack).token() {
        Some(Token::Array(_) | Token::Object(_)) => Value::Null,
        _ => from_msgpack(msgpack),
    }
}

/// A stored body that is serialized into a document.
#[derive(Clone, Copy, Debug)]
pub struct JsonBody<'a>(pub &'a Body);

impl JsonBody<'_> {
    /// Returns whether the body is `null`.
    #[must_use]
    pub fn is_null(self) -> bool {
        Reader::new(self.0.as_msgpack()).token() == Some(Token::Null)
    }
}

impl Serialize for JsonBody<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        msgpack::serialize(self.0.as_msgpack(), serializer)
    }
}

/// Returns warnings about the fields of a body with other names than these. `elsewhere` has names
/// that have a meaning at another place, and what they are there.
#[must_use]
pub fn unknown_fields(
    fields: &Map<String, Value>,
    known: &[&'static str],
    elsewhere: &[(&'static str, &'static str)],
) -> Vec<Warning> {
    let is_elsewhere = |field: &str| elsewhere.iter().any(|(name, _)| *name == field);
    let misplaced = elsewhere.iter().filter(|(name, _)| fields.contains_key(*name) && !known.contains(name));
    let misplaced = misplaced.map(|(name, place)| Warning::Elsewhere { name, place });
    let others = fields.keys().map(String::as_str).filter(|field| !is_elsewhere(field));
    misplaced.chain(of_unknown(NameKind::Field, known, others)).collect()
}

/// Returns the integer in a field of a document.
pub fn integer(field: &str, value: &Value) -> Result<i64, Error> {
    sukkal_domain::integer::integer(value)
        .ok_or_else(|| Error::Body(format!("The value of the \"{field}\" field must be a int.")))
}

/// Returns the text of a document, indented by four spaces as in the reference implementation.
#[must_use]
pub fn indented(document: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    "));
    document.serialize(&mut writer).expect("a tree always has a JSON form");
    bytes
}

/// Returns whether an integer does not fit into 64 signed bits. The parser would silently convert
/// it to a float.
fn has_oversized_integer(json: &[u8]) -> bool {
    let mut at = 0;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at += string_length(&json[at..]),
            b'-' | b'0'..=b'9' => {
                let length = json[at..].iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                let number = &json[at..at + length];
                let is_integer = number.iter().all(|byte| b"-0123456789".contains(byte));
                if length >= OVERSIZED_DIGITS_MIN && is_integer && !fits(number) {
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

/// Returns the length in bytes of the string at the start, including its quotes.
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

    fn error_text(text: &str) -> String {
        parse(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn integers_must_fit_into_64_signed_bits() {
        assert_eq!(parse(b"[9223372036854775807, -9223372036854775808]").unwrap(), json!([i64::MAX, i64::MIN]));
        assert_eq!(parse(br#"["99999999999999999999\"9", 1.5e20]"#).unwrap()[1], json!(1.5e20));
        for text in ["[9223372036854775808]", "[-9223372036854775809]", r#"{"a": ["\\", 99999999999999999999]}"#] {
            assert_eq!(error_text(text), "JSON contains integer that is too large.", "{text}");
        }
    }

    #[test]
    fn only_objects_and_arrays_are_accepted() {
        for text in
            ["", "null", "5", "\"x\"", "[1", "[NaN]", "[Infinity]", "[1e400]", "[\"\\ud800\"]", "[\"a\nb\"]", "[1]x"]
        {
            let error = error_text(text);
            assert!(error.starts_with("Request body could not be parsed. "), "{text}: {error}");
        }
        assert!(parse(b"[\"\xff\"]").is_err());
        assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    }

    #[test]
    fn an_error_gives_the_line_and_column() {
        for (text, reason) in [
            ("{\"a\": 1,\n \"b\": tru}", "Line 2, column 10: expected ident."),
            ("{\"a\": 1", "Line 1, column 7: EOF while parsing an object."),
            ("{'a': 1}", "Line 1, column 2: key must be a string."),
            ("[1,]", "Line 1, column 4: trailing comma."),
            ("[1]x", "Line 1, column 4: trailing characters."),
            ("[1e400]", "Line 1, column 6: number out of range."),
            ("", "Line 1, column 0: EOF while parsing a value."),
            ("5", "It must be an object or an array."),
        ] {
            let expected = format!("Request body could not be parsed. {reason}");
            assert_eq!(error_text(text), expected);
            assert_eq!(parse_to_msgpack(text.as_bytes()).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_keys_keep_their_order() {
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
        fn a_body_is_returned_unchanged(value in any_json()) {
            let text = json!([value]).to_string();

            let stored = Body::from_msgpack(parse_to_msgpack(text.as_bytes()).unwrap().into());

            prop_assert_eq!(serde_json::to_string(&JsonBody(&stored)).unwrap(), text);
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes: Vec<u8>) {
            let _either = parse(&bytes);
        }
    }
}
