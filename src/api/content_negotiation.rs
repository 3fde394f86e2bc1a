//! Checks the media types and encodings of a request: `Content-Type`, `Content-Encoding` and
//! `Accept`.

use axum::http::{HeaderMap, header};

use super::stream::EVENT_STREAM;
use crate::wire::Error;
use crate::wire::body;

/// The ranges that include JSON, of which the last is the most specific.
const JSON_RANGES: [&str; 3] = ["*/*", "application/*", "application/json"];

/// Refuses a form, a content encoding other than `identity`, and a request that does not accept
/// JSON.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Error> {
    if body::declares_body(headers) && has_content_type(headers, &["application/x-www-form-urlencoded"]) {
        return Err(Error::FormContent);
    }
    let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
    if encodings.any(|encoding| !encoding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Error::ContentEncoding);
    }
    let mut ranges = ranges(headers).peekable();
    if ranges.peek().is_some() && !accepts_json(ranges) {
        return Err(Error::NotAcceptable);
    }
    Ok(())
}

/// Returns the media ranges of `Accept`; none without the header.
fn ranges(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accept.filter(|value| !value.is_empty()).flat_map(|value| value.split(','))
}

/// Returns whether the `Content-Type` is one of these media types, with any parameters (RFC 9110,
/// section 8.3.1).
pub(super) fn has_content_type(headers: &HeaderMap, media_types: &[&str]) -> bool {
    let sent = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (sent, _) = weighted(sent);
    media_types.iter().any(|media_type| media_type.eq_ignore_ascii_case(sent))
}

/// Returns whether the client prefers an event stream to JSON. It must name the media type; a
/// wildcard does not count.
pub(super) fn prefers_events(headers: &HeaderMap) -> bool {
    let events = weight_of(&[EVENT_STREAM], ranges(headers));
    events > 0.0 && events > weight_of(&JSON_RANGES, ranges(headers))
}

/// Returns a media range without its parameters, and its weight (RFC 9110, section 12.4.2).
fn weighted(range: &str) -> (&str, f32) {
    let mut parts = range.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| {
        let (name, weight) = part.split_once('=')?;
        weight.parse::<f32>().ok().filter(|_| name.eq_ignore_ascii_case("q"))
    });
    (range, weight.unwrap_or(1.0))
}

/// Returns the weight of the most specific range among these, the last of which is the most
/// specific; 0 if the client names none of them.
fn weight_of<'a>(known: &[&str], ranges: impl Iterator<Item = &'a str>) -> f32 {
    let specificity = |range: &str| known.iter().position(|known| known.eq_ignore_ascii_case(range));
    let weights = ranges.map(weighted).filter_map(|(range, weight)| Some((specificity(range)?, weight)));
    weights.max_by_key(|(specificity, _)| *specificity).map_or(0.0, |(_, weight)| weight)
}

fn accepts_json<'a>(ranges: impl Iterator<Item = &'a str>) -> bool {
    weight_of(&JSON_RANGES, ranges) > 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_range_decides() {
        for accept in [
            "application/json",
            "text/xml, */*;q=0.1",
            "application/*",
            "Application/JSON; q=0.5",
            "*/*;q=0, application/json",
        ] {
            assert!(accepts_json(accept.split(',')), "{accept}");
        }
        for accept in
            ["application/xml", "text/html, text/plain", "application/json;q=0, */*", "json", ";", "application/json2"]
        {
            assert!(!accepts_json(accept.split(',')), "{accept}");
        }
    }
}
