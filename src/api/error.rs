//! From errors to answers: the only status table.
//!
//! An answer says whose fault it is: 4xx the request's, with what to change; 503 the store's, worth
//! another try, or the operator's, who has to set a key; 500 ours, with nothing of the inside shown, or that of
//! whoever damaged a message.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::{ALLOW, HeaderValue, RETRY_AFTER, VARY};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use thiserror::Error;

use crate::domain::ClientIdRule;
use crate::domain::once::InvalidKey;
use crate::domain::queue::InvalidQueueId;
use crate::{broker, storage};

/// How soon a client may try again after a 503, in seconds.
const RETRY_AFTER_S: u32 = 1;
/// The longest URL: its path and query, in bytes.
pub const URL_BYTES_MAX: usize = 8_192;
/// The largest request line and headers, together, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// What a client of an event stream can do if it cannot set headers, as a browser's `EventSource` cannot.
const STREAM_HINT: &str = " An event stream may have client_id= and project_id= in its query instead.";
const DEFECT: &str =
    "This is a bug in the service. Its log has the cause, under the X-OpenStack-Request-ID of this answer.";
const UNAVAILABLE: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "Service temporarily unavailable");

/// Why a request is not answered with what it asks for.
#[derive(Debug, Error)]
pub enum Error {
    /// No such path.
    #[error("There is no such path. The API begins at /v2/, and GET / lists its versions.")]
    NoRoute,
    /// The request has a signature that does not allow it. Which part does not fit is not said.
    #[error("The URL-Signature does not allow this request.")]
    NotSigned,
    /// The path does not take the method.
    #[error("The methods of this path are {allow}.")]
    Method {
        /// The methods that it takes, as in `Allow`.
        allow: &'static str,
    },
    /// The URL is longer than any that the API needs.
    #[error("The URL has {0} bytes; at most {max} are allowed.", max = URL_BYTES_MAX)]
    UrlTooLong(usize),
    /// The request does not name its host, or names it twice.
    #[error("An HTTP/1.1 request must have exactly one Host header.")]
    Host,
    /// A header that says who calls is there more than once.
    #[error("The header {0} is given more than once.")]
    RepeatedHeader(&'static str),
    /// The body is encoded.
    #[error("The Content-Encoding of a body must be identity.")]
    ContentEncoding,
    /// The request claims to be a form.
    #[error("The API takes JSON, not application/x-www-form-urlencoded.")]
    FormContent,
    /// The client takes no JSON.
    #[error("This API serves application/json only; the Accept header must allow it.")]
    NotAcceptable,
    /// `Client-ID` is missing.
    #[error("The \"Client-Id\" header is required.{}", .is_stream.then_some(STREAM_HINT).unwrap_or_default())]
    ClientIdMissing {
        /// Whether the request is for an event stream.
        is_stream: bool,
    },
    /// The client id is not one.
    #[error("Malformed hexadecimal UUID. {carrier} must be {accepted}.")]
    ClientIdInvalid {
        /// Where it stands in the request.
        carrier: &'static str,
        /// What it must be.
        accepted: ClientIdRule,
    },
    /// `X-Project-ID` is missing.
    #[error("The header X-Project-ID was missing.{}", .is_stream.then_some(STREAM_HINT).unwrap_or_default())]
    ProjectMissing {
        /// Whether the request is for an event stream.
        is_stream: bool,
    },
    /// `X-Project-ID` is empty.
    #[error("The header X-Project-ID is empty.")]
    ProjectEmpty,
    /// `X-Project-ID` is no text.
    #[error("The header X-Project-ID is not UTF-8.")]
    ProjectInvalid,
    /// The path's queue name, or the project, can name no queue.
    #[error("{0}")]
    QueueId(#[from] InvalidQueueId),
    /// A query parameter has a value of the wrong type.
    #[error("The \"{name}\" parameter is invalid. The value must be {expected}.")]
    Parameter {
        /// The parameter.
        name: String,
        /// What it takes.
        expected: &'static str,
    },
    /// The request is not what the route takes.
    #[error("{0}")]
    Request(String),
    /// The body is not what the route takes.
    #[error("{0}")]
    Body(String),
    /// The body is of another media type than the one that the route takes.
    #[error("Expected Content-Type for PATCH: {0}.")]
    MediaType(&'static str),
    /// The idempotency key is none.
    #[error("{0}")]
    IdempotencyKey(#[from] InvalidKey),
    /// The body did not arrive.
    #[error("The request body did not arrive completely, or not in time.")]
    BodyCutOff,
    /// There is no memory for the body now.
    #[error("The request bodies that are arriving use all the memory for bodies. Please try again in a few seconds.")]
    BodyBudget,
    /// The head is too large.
    #[error("The URL and the headers are too large; together they may have at most {HEAD_BYTES_MAX} bytes.")]
    HeadTooLarge,
    /// What the store holds has no JSON form.
    #[error("a document could not be written")]
    Document,
    /// Metadata in a patch that reserved keys do not take.
    #[error("{0}")]
    PatchedMetadata(crate::domain::metadata::InvalidMetadata),
    /// The broker refused or could not.
    #[error(transparent)]
    Broker(#[from] broker::Error),
}

/// What a request gets when the code behind it broke down.
#[must_use]
pub fn internal() -> Response {
    document(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error", DEFECT)
}

/// Marks an answer that the store could not give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// It cannot be reached, or it refuses to write.
    Away,
    /// Its disk is full.
    DiskFull,
    /// Its memory is full.
    MemoryFull,
}

impl StoreFailure {
    /// The failure that an error of the store is; `None` if the store was not asked, or is damaged.
    fn of(error: &storage::Error) -> Option<Self> {
        match error {
            storage::Error::Unavailable(_) => Some(Self::Away),
            storage::Error::DiskFull(_) => Some(Self::DiskFull),
            storage::Error::MemoryFull(_) => Some(Self::MemoryFull),
            storage::Error::Overloaded | storage::Error::Corrupt(_) => None,
        }
    }

    /// What a request gets that the store could not serve: what was not done, if that is known, and that it may be tried
    /// again.
    #[must_use]
    pub fn response(self, loss: Option<&str>) -> Response {
        let reason = match self {
            Self::Away => "The message store cannot be reached.",
            Self::DiskFull => "The disk of the message store is full.",
            Self::MemoryFull => "The memory of the message store is full.",
        };
        let reason = match (self, loss) {
            (_, None) => reason.to_owned(),
            (Self::Away, Some(loss)) => loss.to_owned(),
            (_, Some(loss)) => format!("{loss} {reason}"),
        };
        let mut response = unavailable(&format!("{reason} Please try again in a few seconds."));
        response.extensions_mut().insert(self);
        response
    }
}

/// `503` with this reason.
#[must_use]
pub fn unavailable(reason: &str) -> Response {
    let (status, title) = UNAVAILABLE;
    let mut response = document(status, title, reason);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    response
}

impl Error {
    /// What a client is told, where there is no status any more to tell it by.
    #[must_use]
    pub fn words(&self) -> (&'static str, String) {
        let (status, title) = self.parts();
        if status.is_server_error() {
            tracing::error!(error = %self, status = status.as_u16(), "a stream failed");
        }
        match self {
            Self::Document | Self::Broker(broker::Error::Store(_)) => (title, DEFECT.to_owned()),
            error => (title, error.to_string()),
        }
    }

    fn parts(&self) -> (StatusCode, &'static str) {
        use broker::Error as Broker;
        match self {
            Self::NoRoute | Self::NotSigned => (StatusCode::NOT_FOUND, "404 Not Found"),
            Self::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, "405 Method Not Allowed"),
            Self::UrlTooLong(_) => (StatusCode::URI_TOO_LONG, "414 URI Too Long"),
            Self::Host => (StatusCode::BAD_REQUEST, "Invalid Host header"),
            Self::RepeatedHeader(_) => (StatusCode::BAD_REQUEST, "Ambiguous identification"),
            Self::FormContent => (StatusCode::BAD_REQUEST, "Invalid Content-Type"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "Media type not acceptable"),
            Self::ClientIdMissing { .. } => (StatusCode::BAD_REQUEST, "Missing header value"),
            Self::ClientIdInvalid { .. } => (StatusCode::BAD_REQUEST, "Wrong UUID value"),
            Self::ProjectMissing { .. } => (StatusCode::BAD_REQUEST, "Project-Id Missing"),
            Self::ProjectEmpty => (StatusCode::BAD_REQUEST, "Empty project header not allowed"),
            Self::ProjectInvalid => (StatusCode::BAD_REQUEST, "Invalid project identification"),
            Self::QueueId(_) => (StatusCode::BAD_REQUEST, "Invalid queue identification"),
            Self::Parameter { .. } => (StatusCode::BAD_REQUEST, "Invalid parameter"),
            Self::Request(_) | Self::IdempotencyKey(_) | Self::Broker(Broker::Limit(_) | Broker::Metadata(_)) => {
                (StatusCode::BAD_REQUEST, "Invalid API request")
            }
            Self::Body(_) | Self::PatchedMetadata(_) | Self::Broker(Broker::DelayType | Broker::TenantType) => {
                (StatusCode::BAD_REQUEST, "Invalid request body")
            }
            Self::Broker(Broker::OtherContent) => (StatusCode::UNPROCESSABLE_ENTITY, "Idempotency key reused"),
            Self::MediaType(_) | Self::ContentEncoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "415 Unsupported Media Type")
            }
            Self::BodyCutOff => (StatusCode::REQUEST_TIMEOUT, "Request timeout"),
            Self::Broker(Broker::NotClaimed | Broker::UnknownClaim) => (StatusCode::BAD_REQUEST, "Unable to delete"),
            Self::Broker(Broker::Claimed) => (StatusCode::FORBIDDEN, "Unable to delete"),
            Self::Broker(Broker::Share { .. }) => (StatusCode::TOO_MANY_REQUESTS, "429 Too Many Requests"),
            Self::Broker(Broker::Forbidden) => (StatusCode::FORBIDDEN, "Not authorized"),
            Self::Broker(Broker::NoQueue(_) | Broker::NoMessage(_) | Broker::NoClaim(_)) => {
                (StatusCode::NOT_FOUND, "Not found")
            }
            Self::Broker(Broker::Conflict(_)) => (StatusCode::CONFLICT, "Resource conflict"),
            Self::Document | Self::Broker(Broker::Store(storage::Error::Corrupt(_)) | Broker::Damaged(_)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
            }
            // Another process may have the key, or this one's operator may give it one.
            Self::BodyBudget | Self::Broker(Broker::Key(_) | Broker::Store(_)) => UNAVAILABLE,
            Self::HeadTooLarge => (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "431 Request Header Fields Too Large"),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, title) = self.parts();
        let is_passing = match &self {
            Self::BodyBudget => true,
            Self::Broker(broker::Error::Store(error)) => error.is_passing(),
            _ => false,
        };
        if is_passing {
            // The store tells the operator once. A line for each of thousands of requests would make an overload worse.
            tracing::debug!(error = %self, status = status.as_u16(), "request refused");
        } else if status.is_server_error() {
            tracing::error!(error = %self, status = status.as_u16(), "request failed");
        }
        match &self {
            Self::Document | Self::Broker(broker::Error::Store(storage::Error::Corrupt(_))) => return internal(),
            Self::Broker(broker::Error::Store(error)) => {
                if let Some(failure) = StoreFailure::of(error) {
                    return failure.response(None);
                }
            }
            _ => {}
        }
        let mut response = document(status, title, &self.to_string());
        let headers = response.headers_mut();
        if let Self::Method { allow } = self {
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        } else if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&status) {
            headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        }
        response
    }
}

fn document(status: StatusCode, title: &str, description: &str) -> Response {
    let mut body = json!({ "title": title, "description": description });
    if status == StatusCode::NOT_ACCEPTABLE {
        body["link"] = json!({ "text": "API documentation", "href": "/v2/", "rel": "help" });
    }
    (status, [(VARY, "Accept")], Json(body)).into_response()
}
