//! Responses that cannot have a body.

use axum::http::StatusCode;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;

/// Removes the `Content-Length` that the router adds to responses that cannot have one (RFC 9110,
/// section 8.6).
pub(super) fn without_content_length(mut response: Response) -> Response {
    if [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&response.status()) {
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    response
}
