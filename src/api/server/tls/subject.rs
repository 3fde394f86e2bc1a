//! The subject of a certificate as text (RFC 4514): the identity of a client.

use std::fmt::Write;

/// Object identifiers of attributes in DER, with their names.
const ATTRIBUTES: [(&[u8], &str); 10] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
];

const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const BMP_STRING: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;

/// Returns the text of a subject, which is in DER without the outer tag and length. Returns `None`
/// if it is not a valid name.
///
/// Two different subjects have different texts, except for the type of their strings. Otherwise a
/// client could be taken for another one.
pub(super) fn text(subject: &[u8]) -> Option<String> {
    let mut rest = subject;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut attributes = next_of(&mut rest, SET)?;
        let mut part = String::new();
        while !attributes.is_empty() {
            if !part.is_empty() {
                part.push('+');
            }
            write_attribute(&mut part, next_of(&mut attributes, SEQUENCE)?)?;
        }
        parts.push(part);
    }
    parts.reverse();
    Some(parts.join(","))
}

fn write_attribute(text: &mut String, mut attribute: &[u8]) -> Option<()> {
    let identifier = next_of(&mut attribute, OBJECT_IDENTIFIER)?;
    let whole_value = attribute;
    let (tag, value) = next(&mut attribute)?;
    if !attribute.is_empty() {
        return None;
    }
    let name = ATTRIBUTES.iter().find(|(known, _)| *known == identifier).map(|(_, name)| *name);
    match name {
        Some(name) => text.push_str(name),
        None => write_dotted(text, identifier)?,
    }
    text.push('=');
    match string(tag, value) {
        Some(value) if name.is_some() => write_escaped(text, &value),
        _ => {
            text.push('#');
            whole_value.iter().try_for_each(|byte| write!(text, "{byte:02x}")).ok()?;
        }
    }
    Some(())
}

/// Returns the value of a string of one of the usual types.
fn string(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => str::from_utf8(value).ok().map(str::to_owned),
        BMP_STRING => {
            let (units, rest) = value.as_chunks::<2>();
            let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        _ => None,
    }
}

fn write_escaped(text: &mut String, value: &str) {
    let last = value.chars().count().saturating_sub(1);
    for (position, character) in value.chars().enumerate() {
        let is_special = match character {
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' => true,
            ' ' => position == 0 || position == last,
            '#' => position == 0,
            _ => false,
        };
        if character.is_control() {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                write!(text, "\\{byte:02x}").expect("a string can be written");
            }
            continue;
        }
        if is_special {
            text.push('\\');
        }
        text.push(character);
    }
}

/// Writes an object identifier as `1.2.840`.
fn write_dotted(text: &mut String, identifier: &[u8]) -> Option<()> {
    let mut arc: u64 = 0;
    let mut is_first = true;
    for byte in identifier {
        arc = arc.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 != 0 {
            continue;
        }
        if is_first {
            let root = (arc / 40).min(2);
            write!(text, "{root}.{}", arc - root * 40).ok()?;
            is_first = false;
        } else {
            write!(text, ".{arc}").ok()?;
        }
        arc = 0;
    }
    // An identifier that ends within a number is not valid.
    identifier.last().is_some_and(|byte| byte & 0x80 == 0).then_some(())
}

/// Takes the next element, which must have this tag, and returns its contents.
fn next_of<'d>(rest: &mut &'d [u8], wanted: u8) -> Option<&'d [u8]> {
    next(rest).filter(|(tag, _)| *tag == wanted).map(|(_, contents)| contents)
}

/// Takes the next element of DER, and returns its tag and contents.
fn next<'d>(rest: &mut &'d [u8]) -> Option<(u8, &'d [u8])> {
    let (&tag, after_tag) = rest.split_first()?;
    let (&first, mut after_length) = after_tag.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let (bytes, after) = after_length.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.is_empty() || bytes.len() > 3 {
            return None;
        }
        length = bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        after_length = after;
    }
    let (contents, after) = after_length.split_at_checked(length)?;
    *rest = after;
    Some((tag, contents))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
        [&[tag, u8::try_from(contents.len()).unwrap()], contents].concat()
    }

    fn attribute(identifier: &[u8], tag: u8, value: &[u8]) -> Vec<u8> {
        element(SEQUENCE, &[element(OBJECT_IDENTIFIER, identifier), element(tag, value)].concat())
    }

    fn name(parts: &[Vec<u8>]) -> Vec<u8> {
        parts.iter().flat_map(|part| element(SET, part)).collect()
    }

    const CN: &[u8] = &[0x55, 4, 3];
    const O: &[u8] = &[0x55, 4, 10];

    #[test]
    fn a_subject_is_written_from_its_last_part_to_its_first() {
        let organization = attribute(O, PRINTABLE_STRING, b"Acme, Inc.");
        let two = [attribute(CN, UTF8_STRING, "caf\u{e9}".as_bytes()), attribute(&[0x2a, 3, 0x84, 0x01], 0x02, &[7])];

        assert_eq!(
            text(&name(&[organization, two.concat()])).unwrap(),
            "CN=caf\u{e9}+1.2.3.513=#020107,O=Acme\\, Inc."
        );
        assert_eq!(text(&[]).unwrap(), "");
        assert_eq!(text(&name(&[attribute(CN, BMP_STRING, &[0, b'x'])])).unwrap(), "CN=x");
    }

    #[test]
    fn a_value_cannot_look_like_several_parts() {
        for (value, shown) in
            [("a,O=Acme", r"CN=a\,O=Acme"), (r" a\ ", r"CN=\ a\\\ "), ("#05", r"CN=\#05"), ("a\nb\0", r"CN=a\0ab\00")]
        {
            assert_eq!(text(&name(&[attribute(CN, UTF8_STRING, value.as_bytes())])).unwrap(), shown);
        }
    }

    #[test]
    fn a_malformed_subject_has_no_text() {
        let valid = name(&[attribute(CN, UTF8_STRING, b"abc")]);
        for end in 1..valid.len() {
            assert_eq!(text(&valid[..end]), None);
        }
        for malformed in [&[SET, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[SET, 0x80], &[SEQUENCE, 0], &[SET, 2, SET, 0]] {
            assert_eq!(text(malformed), None);
        }
        assert_eq!(text(&name(&[attribute(&[0x55, 0x84], UTF8_STRING, b"abc")])), None);
        assert_eq!(text(&name(&[attribute(&[0xff; 12], UTF8_STRING, b"abc")])), None);
    }
}
