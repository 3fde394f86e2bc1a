//! Checksums of message bodies: MD5 of the JSON text that Python's `json.dumps` writes for a body.
//! Clients of the reference implementation compare them.

use std::fmt::Write as _;
use std::io;

use md5::{Digest, Md5};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::ser::{self, Formatter};

use super::json::JsonBody;

/// Whether message documents have checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// Documents have checksums.
    Shown,
    /// Documents have no `checksum` key.
    Hidden,
}

impl Checksums {
    /// Returns the checksum for the document of a message with this body. A `null` body has no
    /// checksum.
    #[must_use]
    pub fn of(self, body: JsonBody<'_>) -> Option<Checksum<'_>> {
        (self == Self::Shown && !body.is_null()).then_some(Checksum(body))
    }
}

/// The checksum of a body. It is computed when it is serialized.
#[derive(Clone, Copy, Debug)]
pub struct Checksum<'a>(JsonBody<'a>);

impl Serialize for Checksum<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&checksum(&self.0).map_err(S::Error::custom)?)
    }
}

/// Returns `MD5:` and the hash in hexadecimal. Fails if the value has no JSON form.
pub fn checksum(body: &impl Serialize) -> serde_json::Result<String> {
    let mut text = String::from("MD5:");
    for byte in Md5::digest(dumps(body)?) {
        write!(text, "{byte:02x}").expect("a string can be written to");
    }
    Ok(text)
}

/// Returns the text that Python's `json.dumps` writes for the value.
fn dumps(value: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    value.serialize(&mut ser::Serializer::with_formatter(&mut bytes, Python))?;
    Ok(bytes)
}

/// Formats JSON with a space after commas and colons, in ASCII only, and with floats as in `repr`.
struct Python;

impl Formatter for Python {
    fn begin_array_value<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_key<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        separate(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            match character {
                ' '..='~' => writer.write_all(&[character as u8])?,
                _ => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        write!(writer, "\\u{unit:04x}")?;
                    }
                }
            }
        }
        Ok(())
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(repr(value).as_bytes())
    }
}

fn separate<W: io::Write + ?Sized>(writer: &mut W, first: bool) -> io::Result<()> {
    if first { Ok(()) } else { writer.write_all(b", ") }
}

/// Returns a float as Python writes it: with as few digits as identify it. Very large and small
/// floats have an exponent of two or more digits.
fn repr(value: f64) -> String {
    // Of two shortest forms, Python writes the nearer one, or the even one if both are equally
    // near. So does serde_json, but not the standard library.
    let text = serde_json::to_string(&value).expect("a body has finite floats only");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |text| ("-", text));
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    // Position of the decimal point, counted from the first digit.
    let point =
        exponent.parse::<isize>().expect("an exponent is an integer") + length(whole) - length(&all) + length(digits);
    let digits = digits.trim_end_matches('0');
    match point {
        _ if digits.is_empty() => format!("{sign}0.0"),
        -3..=0 => format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs())),
        1..=16 => {
            let padded = format!("{digits:0<width$}", width = point.unsigned_abs() + 1);
            let (whole, fraction) = padded.split_at(point.unsigned_abs());
            format!("{sign}{whole}.{fraction}")
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            let dot = if rest.is_empty() { "" } else { "." };
            let exponent = point - 1;
            let direction = if exponent < 0 { '-' } else { '+' };
            format!("{sign}{first}{dot}{rest}e{direction}{:02}", exponent.unsigned_abs())
        }
    }
}

fn length(text: &str) -> isize {
    isize::try_from(text.len()).expect("a number is short")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use sukkal_domain::Body;

    fn python(value: &Value) -> String {
        String::from_utf8(dumps(value).unwrap()).unwrap()
    }

    #[test]
    fn checksums_equal_those_of_the_reference_implementation() {
        let vectors = [
            (json!({"k": "v", "a": [1, 2.0, null, true, "\u{e9}"]}), "MD5:e3e5a3a7d3644ecf5f6996d71ad480cb"),
            (json!("str"), "MD5:767e2d7912ebefdfe18495ed53635fc8"),
        ];
        for (body, expected) in vectors {
            assert_eq!(shown(Checksums::Shown, &body), json!(expected), "{body}");
        }
    }

    /// Returns the checksum in the document of a message with this body.
    fn shown(checksums: Checksums, body: &Value) -> Value {
        let body = Body::from_msgpack(rmp_serde::to_vec(body).unwrap().into());
        serde_json::to_value(checksums.of(JsonBody(&body))).unwrap()
    }

    #[test]
    fn json_text_is_ascii_with_a_space_after_commas_and_colons() {
        let body = json!({"b": [], "a": {"": [false, 0, -1]}, "t": "\u{1f600}\u{7f}\u{ff}/\"\\\u{8}\u{c}\n\r\t\u{1f}"});

        let expected = r#"{"b": [], "a": {"": [false, 0, -1]}, "t": "\ud83d\ude00\u007f\u00ff/\"\\\b\f\n\r\t\u001f"}"#;
        assert_eq!(python(&body), expected);
    }

    #[test]
    fn numbers_are_written_as_in_python() {
        for (number, expected) in [
            (2.0, "2.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (-0.000_012_5, "-1.25e-05"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (262_708_923_300_844.12, "262708923300844.12"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(repr(number), expected);
        }
        assert_eq!(python(&json!([i64::MAX, i64::MIN])), "[9223372036854775807, -9223372036854775808]");
    }

    #[test]
    fn null_has_no_checksum_and_hidden_checksums_are_absent() {
        assert_eq!(shown(Checksums::Shown, &Value::Null), Value::Null);
        assert_eq!(shown(Checksums::Hidden, &json!("str")), Value::Null);
        for falsy in [json!(false), json!(0), json!(""), json!([]), json!({})] {
            assert_eq!(shown(Checksums::Shown, &falsy), json!(checksum(&falsy).unwrap()));
        }
    }
}
