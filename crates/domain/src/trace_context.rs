//! The trace context of a request (<https://www.w3.org/TR/trace-context/>), which is kept with the
//! messages that the request posts.

use std::fmt;

/// A `traceparent` of version 00: the id of a trace, the id of the span in it that sent the
/// request, and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext([u8; TraceContext::BYTES]);

/// Lengths of the trace id, of the span id, and of the flags, in bytes.
const FIELD_BYTES: [usize; 3] = [16, 8, 1];
const VERSION: &str = "00";

impl TraceContext {
    /// Length of a trace context, in bytes.
    pub const BYTES: usize = 25;

    /// Parses a `traceparent`. Returns `None` if the text is not one of version 00.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.strip_prefix(VERSION)?.replace('-', "");
        let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
        let byte = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes = pairs.iter().map(byte).collect::<Option<Vec<u8>>>()?;
        let parsed = Self(bytes.try_into().ok()?);
        let [trace, span, _flags] = parsed.fields();
        let is_valid = [trace, span].iter().all(|id| id.iter().any(|byte| *byte != 0));
        // This refuses upper case, signs, and hyphens at other places.
        (is_valid && parsed.to_string() == text).then_some(parsed)
    }

    /// Returns the trace context with these bytes, as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the trace id, of the span id, and of the flags.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    fn fields(&self) -> [&[u8]; 3] {
        let (trace, rest) = self.0.split_at(FIELD_BYTES[0]);
        let (span, flags) = rest.split_at(FIELD_BYTES[1]);
        [trace, span, flags]
    }
}

impl fmt::Display for TraceContext {
    /// Writes the `traceparent`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERSION)?;
        for field in self.fields() {
            f.write_str("-")?;
            field.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_traceparent_is_written_as_it_was_parsed() {
        let parsed = TraceContext::parse(VALID).unwrap();

        assert_eq!(parsed.to_string(), VALID);
        assert_eq!(TraceContext::from_bytes(*parsed.as_bytes()), parsed);
    }

    #[test]
    fn a_text_of_another_form_is_not_a_traceparent() {
        for text in [
            "",
            "00",
            // Another version, which may have other fields.
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            // Ids of zeros, and ids in upper case.
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00F067AA0BA902B7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_accepted_text_is_written_as_it_was_parsed(text in "(00|01)-[0-9a-f]{32}-[0-9a-fA]{16}-[0-9a-f]{2}") {
            if let Some(parsed) = TraceContext::parse(&text) {
                prop_assert_eq!(parsed.to_string(), text);
            }
        }
    }
}
