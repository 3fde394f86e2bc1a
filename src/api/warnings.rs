//! The `Sukkal-Warning` header, which says why a part of an accepted request has no effect. Each
//! warning has its own header, and a response has at most five. Those about unknown names come
//! last, and the last header says if there are others.

use std::convert::Infallible;

use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponseParts, ResponseParts};

use sukkal_domain::Warning;

pub(super) const WARNING: &str = "sukkal-warning";
/// Maximum number of warnings of a response.
const WARNINGS_MAX: usize = 5;
const OTHERS: HeaderValue = HeaderValue::from_static("there are other warnings, which are left out");

/// Warnings to add to a response.
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl IntoResponseParts for Warnings {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        if self.0.is_empty() {
            return Ok(response);
        }
        let new = self.0.iter().filter_map(|warning| warning.to_string().try_into().ok());
        let headers = response.headers_mut();
        let mut values: Vec<HeaderValue> = headers.get_all(WARNING).iter().cloned().chain(new).collect();
        let is_of_unknown = |value: &HeaderValue| {
            ["unknown ", "further "].iter().any(|start| value.as_bytes().starts_with(start.as_bytes()))
        };
        values.sort_by_key(is_of_unknown);
        if values.len() > WARNINGS_MAX {
            values.retain(|value| value != OTHERS);
            values.truncate(WARNINGS_MAX - 1);
            values.push(OTHERS);
        }
        headers.remove(WARNING);
        headers.extend(values.into_iter().map(|value| (HeaderName::from_static(WARNING), value)));
        Ok(response)
    }
}
