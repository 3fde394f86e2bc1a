//! The outcome of a request in a frame, and the reply with it.

use axum::body::to_bytes;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::Response;
use serde_json::{Map, Value, json};

use super::action::IsDocument;
use crate::api::middleware::request_log::REQUEST_ID;
use crate::api::warnings::WARNING;
use crate::wire::Error;
use crate::wire::error::Refusal;
use crate::wire::frame::{FrameRequest, Kind};

/// The outcome of a request.
pub(super) struct Outcome {
    status: u16,
    body: Body,
    /// Further headers of the reply.
    headers: Vec<(&'static str, Value)>,
    /// Whether the audit log records it as a refusal.
    is_refusal: bool,
}

enum Body {
    /// A document in the format of the frame.
    Written(Vec<u8>),
    Value(Value),
}

impl Outcome {
    /// Returns an outcome whose document has only this error.
    pub(super) fn error_text(status: u16, error: &str) -> Self {
        Self::new(status, json!({ "error": error }))
    }

    /// Returns the outcome of a request that does not match the schema of its action.
    pub(super) fn schema_violation(reason: &str) -> Self {
        Self::new(400, json!({ "error": "Schema validation failed.", "exception": reason }))
    }

    /// Returns the outcome of a request whose header has a value that no header can have.
    pub(super) fn bad_header(name: &str) -> Self {
        Self::schema_violation(&format!("the header {name} must be a text without control characters"))
    }

    /// Returns the outcome of a request that has a header twice.
    pub(super) fn repeated_header(name: &'static str) -> Self {
        Self { is_refusal: true, ..Self::error_text(400, &Error::RepeatedHeader(name).to_string()) }
    }

    /// Returns the outcome of a request without a credential.
    pub(super) fn not_authenticated() -> Self {
        Self::error_text(403, "Not authenticated.")
    }

    pub(super) fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).expect("outcomes have known statuses")
    }

    pub(super) fn is_refusal(&self) -> bool {
        self.is_refusal
    }

    fn new(status: u16, body: Value) -> Self {
        let is_refusal = status == StatusCode::FORBIDDEN.as_u16();
        Self { status, body: Body::Value(body), headers: Vec::new(), is_refusal }
    }

    /// Converts the response of a handler. `authenticates` says whether the request authenticates
    /// the connection, and `is_proved` whether the connection has a credential.
    pub(super) async fn of(response: Response, authenticates: bool, is_proved: bool) -> Self {
        let (parts, body) = response.into_parts();
        let warnings: Vec<&str> =
            parts.headers.get_all(WARNING).iter().filter_map(|warning| warning.to_str().ok()).collect();
        let warnings = (!warnings.is_empty()).then(|| ("Sukkal-Warning", json!(warnings)));
        let is_refusal = parts.extensions.get::<Refusal>().is_some();
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let status = parts.status.as_u16();
        if parts.extensions.get::<IsDocument>().is_some() {
            let headers = warnings.into_iter().collect();
            return Self { status, body: Body::Written(body.into()), headers, is_refusal };
        }
        let is_unknown_sender = parts.status == StatusCode::UNAUTHORIZED
            // A signature that does not allow the request.
            || (parts.status == StatusCode::NOT_FOUND && is_refusal);
        let mut outcome = if authenticates && [401, 403, 503].contains(&status) {
            Self::error_text(status, "Authentication failed.")
        } else if is_unknown_sender && !is_proved {
            Self::not_authenticated()
        } else {
            let document: Value = serde_json::from_slice(&body).unwrap_or_default();
            let error = parts.status.is_server_error().then(|| document["title"].clone());
            Self::new(status, json!({ "exception": document["description"], "error": error }))
        };
        let header = |name, spelling| {
            let value = parts.headers.get(name)?.to_str().ok()?;
            Some((spelling, value.into()))
        };
        outcome.headers.extend(warnings);
        outcome.headers.extend(header(RETRY_AFTER, "Retry-After"));
        if parts.status.is_server_error() {
            outcome.headers.extend(header(REQUEST_ID, "X-OpenStack-Request-ID"));
        }
        outcome
    }

    /// Writes the reply to a request; `None` if the request could not be decoded.
    pub(super) fn write(self, kind: Kind, request: Option<&FrameRequest>) -> Result<Vec<u8>, Error> {
        let body = match self.body {
            Body::Written(document) => document,
            Body::Value(value) => kind.write(&value)?,
        };
        let mut headers: Map<String, Value> = Map::from_iter([("status".to_owned(), self.status.into())]);
        headers.extend(self.headers.into_iter().map(|(name, value)| (name.to_owned(), value)));
        kind.write_reply(request, &body, &kind.write(&headers)?)
    }
}
