//! Checks the media types and encodings of a request: `Content-Type`, `Content-Encoding` and
//! `Accept`.

use axum::http::{HeaderMap, header};

use super::stream::EVENT_STREAM;
use crate::api::Error;
use crate::api::wire::body;

/// Refuses a form, a content encoding other than `identity`, and a request that does not accept JSON.
pub(super) fn check(headers: &HeaderMap) -> Result<(), Error> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if body::is_announced(headers) && content_type.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
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

/// Returns whether the client asks for an event stream. It must name the media type; a wildcard
/// does not count.
pub(super) fn accepts_events(headers: &HeaderMap) -> bool {
    ranges(headers).map(accepted).any(|(range, is_wanted)| is_wanted && range.eq_ignore_ascii_case(EVENT_STREAM))
}

/// Returns a media range without its parameters, and whether its weight is above zero.
fn accepted(range: &str) -> (&str, bool) {
    let mut parts = range.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| {
        let (name, weight) = part.split_once('=')?;
        weight.parse::<f32>().ok().filter(|_| name.eq_ignore_ascii_case("q"))
    });
    (range, weight.unwrap_or(1.0) > 0.0)
}

/// Returns whether the most specific range that includes JSON has a weight above zero.
fn accepts_json<'a>(ranges: impl Iterator<Item = &'a str>) -> bool {
    let specificity = |range: &str| {
        ["*/*", "application/*", "application/json"].iter().position(|known| known.eq_ignore_ascii_case(range))
    };
    ranges
        .map(accepted)
        .filter_map(|(range, is_wanted)| Some((specificity(range)?, is_wanted)))
        .max_by_key(|(specificity, _)| *specificity)
        .is_some_and(|(_, is_wanted)| is_wanted)
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
