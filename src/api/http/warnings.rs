//! `Sukkal-Warning`: why a part of a request that was accepted has no effect, one header a warning.

use std::convert::Infallible;

use axum::http::HeaderValue;
use axum::response::{IntoResponseParts, ResponseParts};

use crate::domain::Warning;

const WARNING: &str = "sukkal-warning";

/// The warnings of an answer.
pub(super) struct Warnings(pub(super) Vec<Warning>);

impl IntoResponseParts for Warnings {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        let lines = self.0.iter().map(|warning| HeaderValue::try_from(warning.to_string()));
        for line in lines.flatten() {
            response.headers_mut().append(WARNING, line);
        }
        Ok(response)
    }
}
