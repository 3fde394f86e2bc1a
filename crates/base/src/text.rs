//! Texts from files, from stdin and from clients, which may begin with a byte order mark. Some
//! editors write one. It is no part of the text.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use zeroize::Zeroizing;

/// The byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The byte order marks of UTF-16.
const MARKS_OF_UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Returns the bytes after the byte order mark, if they begin with one.
#[must_use]
pub fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

/// Returns whether the bytes begin with a byte order mark of UTF-16. No text in UTF-8 does.
#[must_use]
pub fn is_utf_16(bytes: &[u8]) -> bool {
    MARKS_OF_UTF_16.iter().any(|mark| bytes.starts_with(mark))
}

/// Reads a file as a text.
///
/// # Errors
///
/// The file cannot be read, or it is not in UTF-8.
pub fn read(path: impl AsRef<Path>) -> io::Result<Zeroizing<String>> {
    text_of(File::open(path)?)
}

/// Reads a file of which some parts may be in another encoding than UTF-8, such as comments in PEM.
///
/// # Errors
///
/// The file cannot be read, or it is in UTF-16.
pub fn read_bytes(path: impl AsRef<Path>) -> io::Result<Zeroizing<Vec<u8>>> {
    bytes_of(File::open(path)?)
}

/// Reads a text to its end.
///
/// # Errors
///
/// The text cannot be read, or it is not in UTF-8.
pub fn text_of(reader: impl Read) -> io::Result<Zeroizing<String>> {
    let bytes = bytes_of(reader)?;
    let text = str::from_utf8(&bytes).map_err(|_| invalid("it is not in UTF-8"))?;
    Ok(text.to_owned().into())
}

/// The same for a text of which some parts may be in another encoding.
///
/// # Errors
///
/// The text cannot be read, or it is in UTF-16.
pub fn bytes_of(mut reader: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::new());
    reader.read_to_end(&mut bytes)?;
    if is_utf_16(&bytes) {
        return Err(invalid("it is in UTF-16; save it in UTF-8"));
    }
    let mark = bytes.len() - without_mark(&bytes).len();
    bytes.drain(..mark);
    Ok(bytes)
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_begins_after_its_byte_order_mark() {
        for (bytes, text) in [
            (&b""[..], Ok("")),
            (b"\xef\xbb\xbf", Ok("")),
            (b"\xef\xbb\xbfa", Ok("a")),
            (b"\xef\xbb\xbf\xef\xbb\xbfa", Ok("\u{feff}a")),
            (b"a\xef\xbb\xbf", Ok("a\u{feff}")),
            (b"\xff\xfea\0", Err("it is in UTF-16; save it in UTF-8")),
            (b"\xfe\xff\0a", Err("it is in UTF-16; save it in UTF-8")),
            (b"\xffa", Err("it is not in UTF-8")),
        ] {
            let read = text_of(bytes).map_err(|error| error.to_string());
            assert_eq!(read.as_ref().map(|read| read.as_str()).map_err(String::as_str), text, "{bytes:?}");
        }
    }
}
