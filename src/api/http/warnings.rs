//! The `Sukkal-Warning` header, which says why a part of an accepted request has no effect. Each
//! warning has its own header.

use std::convert::Infallible;

use axum::http::HeaderValue;
use axum::response::{IntoResponseParts, ResponseParts};

use crate::domain::Warning;

const WARNING: &str = "sukkal-warning";

/// Warnings to add to a response.
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl IntoResponseParts for Warnings {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        let values = self.0.iter().map(|warning| HeaderValue::try_from(warning.to_string()));
        for value in values.flatten() {
            response.headers_mut().append(WARNING, value);
        }
        Ok(response)
    }
}
