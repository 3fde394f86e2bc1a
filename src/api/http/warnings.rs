//! The `Sukkal-Warning` header, which says why a part of an accepted request has no effect. Each
//! warning has its own header, and a response has at most five.

use std::convert::Infallible;

use axum::http::HeaderValue;
use axum::response::{IntoResponseParts, ResponseParts};

use sukkal_domain::Warning;

pub(super) const WARNING: &str = "sukkal-warning";
/// Maximum number of warnings of a response.
const WARNINGS_MAX: usize = 5;

/// Warnings to add to a response.
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl IntoResponseParts for Warnings {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        if self.0.is_empty() {
            return Ok(response);
        }
        let left = WARNINGS_MAX.saturating_sub(response.headers().get_all(WARNING).iter().count());
        let values = self.0.iter().take(left).map(|warning| HeaderValue::try_from(warning.to_string()));
        for value in values.flatten() {
            response.headers_mut().append(WARNING, value);
        }
        Ok(response)
    }
}
