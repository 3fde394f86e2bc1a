//! Maps errors to responses. This is the only table of statuses.
//!
//! The status says where the cause is. 4xx: the request is wrong, and the description says what to
//! change. 503: the store is unavailable, and a retry may succeed, or the operator must set a key.
//! 500: the service has a bug, and the response shows no internals, or a stored message was
//! damaged.

use axum::http::StatusCode;
use axum::http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER, UPGRADE, VARY, WWW_AUTHENTICATE};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use thiserror::Error;

use crate::auth::Challenges;
use crate::broker::{self, StoreError};
use sukkal_domain::durability::InvalidDurability;
use sukkal_domain::idempotency::InvalidKey;
use sukkal_domain::queue_id::InvalidQueueId;
use sukkal_domain::{ClientIdRule, QueueKind, RateLimitStatus};

/// Time in seconds after which a client may retry a request that got a 503 or 429.
const RETRY_AFTER_S: u32 = 1;
/// Maximum size in bytes of the path and query of a URL.
pub const URL_BYTES_MAX: usize = 8_192;
/// Maximum size in bytes of the URL and the headers of a request together.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of headers of a request. With HTTP/1, hyper refuses more.
pub const HEADERS_MAX: usize = 100;
/// Maximum number of roles in `X-Roles`.
pub const ROLES_MAX: usize = 100;
/// Maximum size in bytes of `X-Roles`.
pub const ROLES_BYTES_MAX: usize = 4096;
/// Says what a client can do that cannot set headers, such as the `EventSource` of a browser.
const QUERY_HINT: &str = " This request may have the query parameters client_id and project_id instead.";
const DEFECT: &str =
    "This is a bug in the service. Its log has the cause under the X-OpenStack-Request-ID of this response.";
const UNAVAILABLE: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "Service temporarily unavailable");

/// Why a request failed.
#[derive(Debug, Error)]
pub enum Error {
    /// No route has the path. The text is a hint or empty.
    #[error("There is no such path. The API begins at /v2/, and GET / lists its versions.{0}")]
    NoRoute(String),
    /// The signature does not allow the request. The text does not say which part is wrong.
    #[error("The URL-Signature does not allow this request.")]
    NotSigned,
    /// The headers and the query both have a signature.
    #[error("The header URL-Signature and the parameter url_signature cannot be combined; send one of them.")]
    TwoSignatures,
    /// The sender of the request is not known.
    #[error("{reason}")]
    Unauthenticated {
        /// What the client can change.
        reason: String,
        /// How the client can authenticate.
        challenges: Challenges,
    },
    /// The token is valid, but it is for no project.
    #[error("The token is for no project; request one that is for a project.")]
    TokenWithoutProject,
    /// The service that verifies credentials cannot be reached. The text is for the log.
    #[error("The service that verifies credentials cannot be reached. Please try again in a few seconds.")]
    AuthenticationUnavailable(String),
    /// The issuer of the token did not publish its key when the keys were last fetched.
    #[error(
        "The issuer of the token had no key that verifies its signature when the keys were last fetched. They are \
         fetched again in {0} seconds; send the request again after that."
    )]
    UnknownKey(u64),
    /// The request has two credentials, and they could belong to different senders.
    #[error("The headers X-Auth-Token, Authorization: Bearer and URL-Signature cannot be combined; send one of them.")]
    TwoCredentials,
    /// The `Host` header, which is shown, has another name than this service.
    #[error(
        "The header Host is \"{0}\". It must be localhost, a name that ends with .localhost, an IP address, the name on \
         which the service listens, or the host of an origin in cors_origins, unless the operator names strategies in \
         [auth]."
    )]
    ForeignHost(String),
    /// The page of a browser has another origin than this service.
    #[error(
        "The header Origin names another host than the header Host. The operator can allow this origin in the option \
         cors_origins."
    )]
    ForeignOrigin,
    /// The request does not open a WebSocket, on a path where that is the only thing to do.
    #[error(
        "This path serves WebSockets: send a GET over HTTP/1.1 with Upgrade: websocket, Sec-WebSocket-Version: 13 and a \
         Sec-WebSocket-Key."
    )]
    NoUpgrade,
    /// There are as many WebSockets as there may be.
    #[error("This service may have at most {0} WebSockets at the same time. Please try again later.")]
    TooManySockets(usize),
    /// The path does not accept the method.
    #[error("This path accepts only the methods {allow}.")]
    Method {
        /// The value of the `Allow` header.
        allow: String,
    },
    /// The URL is too long.
    #[error("The URL has {0} bytes; at most {max} are allowed.", max = URL_BYTES_MAX)]
    UrlTooLong(usize),
    /// The host is missing, or is named more than once.
    #[error("A request must name its host exactly once, in the header Host or, with HTTP/2, as :authority.")]
    Host,
    /// The request came without TLS to a port for TLS.
    #[error("This port uses TLS; send the request to the same address with https://.")]
    TlsMissing,
    /// A header that takes one value is repeated.
    #[error("The header {0} is repeated; it must appear only once.")]
    RepeatedHeader(&'static str),
    /// A query parameter that identifies the caller is repeated.
    #[error("The parameter {0} is repeated; it must appear only once.")]
    RepeatedParameter(&'static str),
    /// The body has a content encoding.
    #[error("The header Content-Encoding must be identity or absent.")]
    ContentEncoding,
    /// The body is declared as a form.
    #[error("Content-Type is application/x-www-form-urlencoded; the API accepts only JSON.")]
    FormContent,
    /// The client does not accept JSON.
    #[error("This API serves application/json only; the Accept header must allow it. The documentation is at /docs.")]
    NotAcceptable,
    /// `Client-ID` is missing.
    #[error("The \"Client-Id\" header is required.{}", .query_counts.then_some(QUERY_HINT).unwrap_or_default())]
    ClientIdMissing {
        /// Whether the query may have the client id.
        query_counts: bool,
    },
    /// `Client-ID` is optional, but the request has an idempotency key.
    #[error("An Idempotency-Key requires the header Client-ID, because a key belongs to one client.")]
    KeyWithoutClient,
    /// The client id is invalid.
    #[error("Malformed hexadecimal UUID. {carrier} must be {accepted}.")]
    ClientIdInvalid {
        /// The header or parameter with the client id.
        carrier: &'static str,
        /// The rule for client ids.
        accepted: ClientIdRule,
    },
    /// `X-Project-ID` is missing.
    #[error("The header X-Project-ID was missing.{}", .query_counts.then_some(QUERY_HINT).unwrap_or_default())]
    ProjectMissing {
        /// Whether the query may name the project.
        query_counts: bool,
    },
    /// `X-Project-ID` is empty.
    #[error("The header X-Project-ID is empty; it must name a project.")]
    ProjectEmpty,
    /// `X-Project-ID` is not UTF-8.
    #[error("The header X-Project-ID must be valid UTF-8.")]
    ProjectInvalid,
    /// `X-Roles` is not UTF-8.
    #[error("The header X-Roles must be valid UTF-8.")]
    RolesInvalid,
    /// `X-Roles` has too many roles, which a waiting request would keep.
    #[error("The header X-Roles may have at most {ROLES_MAX} roles and {ROLES_BYTES_MAX} bytes.")]
    TooManyRoles,
    /// The project in the query is not UTF-8 or has control characters.
    #[error("The parameter project_id must be valid UTF-8 without control characters.")]
    ProjectParameter,
    /// The queue name or the project id is invalid.
    #[error("{0}")]
    QueueId(#[from] InvalidQueueId),
    /// A query parameter has an invalid value.
    #[error("The \"{name}\" parameter is invalid. The value must be {expected}.")]
    Parameter {
        /// Name of the parameter.
        name: String,
        /// The accepted values.
        expected: &'static str,
    },
    /// The request is invalid.
    #[error("{0}")]
    Request(String),
    /// The body is invalid.
    #[error("{0}")]
    Body(String),
    /// The body that confirms a subscription is not an object.
    #[error("The body must be an object such as {{\"confirmed\": true}}.")]
    Confirmation,
    /// The media type of the body is not the one that the route requires.
    #[error("Expected Content-Type for PATCH: {0}.")]
    MediaType(&'static str),
    /// The idempotency key is invalid.
    #[error("{0}")]
    IdempotencyKey(#[from] InvalidKey),
    /// The header `Durability` is invalid.
    #[error("The header Durability is invalid; {0}.")]
    Durability(#[from] InvalidDurability),
    /// The body is incomplete or did not arrive in time.
    #[error("The request body was incomplete or did not arrive in time.")]
    BodyCutOff,
    /// The body is not in the chunked transfer coding that its headers announce.
    #[error(
        "The chunked request body is malformed ({0}). Send it as RFC 9112, section 7.1, defines, or with a \
         Content-Length."
    )]
    Chunks(String),
    /// There is no memory for the body at the moment.
    #[error("Other requests use all the memory for request bodies. Please try again in a few seconds.")]
    BodyBudget,
    /// There is no memory for the reply at the moment.
    #[error("Replies that clients do not read use all the memory for replies. Please try again in a few seconds.")]
    ReplyBudget,
    /// The URL and the headers are too large.
    #[error("The URL and the headers are too large; together they may have at most {HEAD_BYTES_MAX} bytes.")]
    HeadTooLarge,
    /// There are too many headers, each of which takes more memory than its bytes.
    #[error("The request has {0} headers; at most {HEADERS_MAX} are allowed.")]
    TooManyHeaders(usize),
    /// A stored value has no JSON form.
    #[error("cannot write a response document")]
    Document,
    /// A patch sets a reserved metadata key to an invalid value.
    #[error("{0}")]
    PatchedMetadata(sukkal_domain::metadata::InvalidMetadata),
    /// The broker refused the operation or failed.
    #[error(transparent)]
    Broker(#[from] broker::Error),
}

/// Returns the response to a request that failed because of a bug.
#[must_use]
pub fn internal() -> Response {
    document(StatusCode::INTERNAL_SERVER_ERROR, "Internal server error", DEFECT)
}

/// The cause of a `503` response, if it is a failure of the store. It is in the extensions of the
/// response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreFailure {
    /// The store cannot be reached, or it refuses writes.
    Unavailable,
    /// The disk of the store is full.
    DiskFull,
    /// The memory of the store is full.
    MemoryFull,
}

impl StoreFailure {
    /// Returns the failure that caused an error; `None` if the store was not accessed or its data
    /// is corrupt.
    fn of(error: &StoreError) -> Option<Self> {
        match error {
            StoreError::Unavailable(_) | StoreError::NotSent(_) => Some(Self::Unavailable),
            StoreError::DiskFull(_) => Some(Self::DiskFull),
            StoreError::MemoryFull(_) => Some(Self::MemoryFull),
            StoreError::NotDurable { .. }
            | StoreError::TooFewReplicas { .. }
            | StoreError::Unsupported(_)
            | StoreError::Overloaded
            | StoreError::NoQueue
            | StoreError::PoolDown(_)
            | StoreError::PoolOfMoveDown(_)
            | StoreError::NoPool(_)
            | StoreError::Corrupt(_) => None,
        }
    }

    /// Returns the `503` response. `description` says which operation failed, if that is known.
    #[must_use]
    pub fn response(self, description: Option<&str>) -> Response {
        let reason = match self {
            Self::Unavailable => "The message store cannot be reached.",
            Self::DiskFull => "The disk of the message store is full.",
            Self::MemoryFull => "The memory of the message store is full.",
        };
        let reason = match (self, description) {
            (_, None) => reason.to_owned(),
            (Self::Unavailable, Some(description)) => description.to_owned(),
            (_, Some(description)) => format!("{description} {reason}"),
        };
        let mut response = unavailable(&format!("{reason} Please try again in a few seconds."));
        response.extensions_mut().insert(self);
        response
    }
}

/// Returns a `503` response with this reason.
#[must_use]
pub fn unavailable(reason: &str) -> Response {
    let (status, title) = UNAVAILABLE;
    let mut response = document(status, title, reason);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    response
}

/// Marks the response to a request that was refused because of its sender, not because it is wrong.
/// It is in the extensions of the response.
#[derive(Clone, Copy, Debug)]
pub struct Refusal;

impl Error {
    /// Returns whether the audit log records the error as a refusal: the sender is not known, may
    /// not do this, or has used up what it may use.
    fn is_refusal(&self) -> bool {
        let (status, _) = self.status_and_title();
        match self {
            Self::NotSigned
            | Self::ForeignHost(_)
            | Self::RepeatedHeader(_)
            | Self::RepeatedParameter(_)
            | Self::TwoSignatures
            | Self::TwoCredentials
            | Self::Broker(broker::Error::RateExceeded { .. }) => true,
            // A claim protects the message, and a flavor the pool, whoever sends the request.
            Self::Broker(broker::Error::Claimed | broker::Error::PoolInUse(_)) => false,
            _ => [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS].contains(&status),
        }
    }

    /// Returns the title and description for the last event of a stream, whose status was sent
    /// before. Logs the error if its status would be that of a server error.
    #[must_use]
    pub fn title_and_description(&self) -> (&'static str, String) {
        let (status, title) = self.status_and_title();
        if status.is_server_error() {
            tracing::error!(error = %self, status = status.as_u16(), "stream failed");
        }
        match self {
            Self::Document | Self::Broker(broker::Error::Store(_)) => (title, DEFECT.to_owned()),
            error => (title, error.to_string()),
        }
    }

    fn status_and_title(&self) -> (StatusCode, &'static str) {
        use broker::Error as Broker;
        match self {
            Self::NoRoute(_) | Self::NotSigned => (StatusCode::NOT_FOUND, "404 Not Found"),
            Self::Method { .. } => (StatusCode::METHOD_NOT_ALLOWED, "405 Method Not Allowed"),
            Self::UrlTooLong(_) => (StatusCode::URI_TOO_LONG, "414 URI Too Long"),
            Self::Unauthenticated { .. } => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Host | Self::ForeignHost(_) => (StatusCode::BAD_REQUEST, "Invalid Host header"),
            Self::TlsMissing => (StatusCode::BAD_REQUEST, "TLS required"),
            Self::RepeatedHeader(_) | Self::RepeatedParameter(_) | Self::TwoSignatures | Self::TwoCredentials => {
                (StatusCode::BAD_REQUEST, "Ambiguous identification")
            }
            Self::FormContent => (StatusCode::BAD_REQUEST, "Invalid Content-Type"),
            Self::NotAcceptable => (StatusCode::NOT_ACCEPTABLE, "Media type not acceptable"),
            Self::ClientIdMissing { .. } | Self::KeyWithoutClient => (StatusCode::BAD_REQUEST, "Missing header value"),
            Self::ClientIdInvalid { .. } => (StatusCode::BAD_REQUEST, "Wrong UUID value"),
            Self::ProjectMissing { .. } | Self::TokenWithoutProject => (StatusCode::BAD_REQUEST, "Project-Id Missing"),
            Self::ProjectEmpty => (StatusCode::BAD_REQUEST, "Empty project header not allowed"),
            Self::ProjectInvalid | Self::ProjectParameter => {
                (StatusCode::BAD_REQUEST, "Invalid project identification")
            }
            Self::RolesInvalid | Self::TooManyRoles => (StatusCode::BAD_REQUEST, "Invalid header value"),
            Self::QueueId(invalid) | Self::Broker(Broker::QueueName(invalid)) => match invalid.kind() {
                QueueKind::Queue => (StatusCode::BAD_REQUEST, "Invalid queue identification"),
                QueueKind::Topic => (StatusCode::BAD_REQUEST, "Invalid topic identification"),
            },
            Self::Parameter { .. } => (StatusCode::BAD_REQUEST, "Invalid parameter"),
            Self::Request(_)
            | Self::IdempotencyKey(_)
            | Self::Durability(_)
            | Self::Broker(
                Broker::Limit(_)
                | Broker::Metadata(_)
                | Broker::Subscription(_)
                | Broker::Token(_)
                | Broker::Store(StoreError::Unsupported(_)),
            ) => (StatusCode::BAD_REQUEST, "Invalid API request"),
            Self::Broker(Broker::FlavorNotCreated(_)) => (StatusCode::BAD_REQUEST, "Unable to create"),
            Self::Broker(Broker::FlavorNotUpdated(_)) => (StatusCode::BAD_REQUEST, "updatefail"),
            Self::Broker(Broker::NoChange) => (StatusCode::BAD_REQUEST, "Unable to update subscription"),
            Self::Confirmation => (StatusCode::BAD_REQUEST, "Unable to confirm subscription"),
            Self::Body(_)
            | Self::Chunks(_)
            | Self::PatchedMetadata(_)
            | Self::Broker(Broker::DelayType | Broker::TenantType | Broker::Pool(_)) => {
                (StatusCode::BAD_REQUEST, "Invalid request body")
            }
            Self::Broker(Broker::OtherContent) => (StatusCode::UNPROCESSABLE_ENTITY, "Idempotency key reused"),
            Self::MediaType(_) | Self::ContentEncoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "415 Unsupported Media Type")
            }
            Self::BodyCutOff => (StatusCode::REQUEST_TIMEOUT, "Request timeout"),
            Self::Broker(Broker::NotClaimed | Broker::UnknownClaim) => (StatusCode::BAD_REQUEST, "Unable to delete"),
            Self::Broker(Broker::Claimed | Broker::PoolInUse(_)) => (StatusCode::FORBIDDEN, "Unable to delete"),
            Self::Broker(
                Broker::TooManyAtOnce { .. } | Broker::RateExceeded { status: RateLimitStatus::TooManyRequests, .. },
            ) => (StatusCode::TOO_MANY_REQUESTS, "429 Too Many Requests"),
            Self::ForeignOrigin => (StatusCode::FORBIDDEN, "Foreign origin"),
            Self::NoUpgrade => (StatusCode::UPGRADE_REQUIRED, "426 Upgrade Required"),
            Self::Broker(Broker::QuotaExceeded { .. }) => (StatusCode::FORBIDDEN, "Quota exceeded"),
            Self::Broker(
                Broker::Forbidden
                | Broker::Denied(_)
                | Broker::ForbiddenShare { .. }
                | Broker::ForbiddenTarget { .. }
                | Broker::ForbiddenGrant,
            ) => (StatusCode::FORBIDDEN, "Not authorized"),
            Self::Broker(Broker::NoQueue(_) | Broker::NotFound(_)) => (StatusCode::NOT_FOUND, "Not found"),
            Self::Broker(Broker::Conflict(_)) => (StatusCode::CONFLICT, "Resource conflict"),
            Self::Document | Self::Broker(Broker::Store(StoreError::Corrupt(_)) | Broker::Damaged(_)) => {
                (StatusCode::INTERNAL_SERVER_ERROR, "Internal server error")
            }
            // A retry may reach a process that has the key, or the operator may set it.
            Self::BodyBudget
            | Self::ReplyBudget
            | Self::TooManySockets(_)
            | Self::AuthenticationUnavailable(_)
            | Self::UnknownKey(_)
            | Self::Broker(Broker::Key(_) | Broker::Store(_) | Broker::RateExceeded { .. }) => UNAVAILABLE,
            Self::HeadTooLarge | Self::TooManyHeaders(_) => {
                (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "431 Request Header Fields Too Large")
            }
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let is_refusal = self.is_refusal();
        let mut response = self.response();
        if is_refusal {
            response.extensions_mut().insert(Refusal);
        }
        response
    }
}

impl Error {
    fn response(self) -> Response {
        let (status, title) = self.status_and_title();
        if let Self::AuthenticationUnavailable(cause) = &self {
            tracing::debug!(%cause, "cannot verify a credential");
        }
        let is_transient = match &self {
            Self::BodyBudget
            | Self::ReplyBudget
            | Self::TooManySockets(_)
            | Self::AuthenticationUnavailable(_)
            | Self::UnknownKey(_)
            | Self::Broker(broker::Error::RateExceeded { .. }) => true,
            Self::Broker(broker::Error::Store(error)) => error.is_transient(),
            _ => false,
        };
        if is_transient {
            // The store logs the cause once. Logging each of thousands of requests would make an
            // overload worse.
            tracing::debug!(error = %self, status = status.as_u16(), "request refused");
        } else if status.is_server_error() {
            tracing::error!(error = %self, status = status.as_u16(), "request failed");
        }
        match &self {
            Self::Document | Self::Broker(broker::Error::Store(StoreError::Corrupt(_))) => return internal(),
            Self::Broker(broker::Error::Store(error)) => {
                if let Some(failure) = StoreFailure::of(error) {
                    return failure.response(None);
                }
            }
            _ => {}
        }
        if let Self::Unauthenticated { reason, challenges } = &self {
            return unauthenticated(reason, challenges);
        }
        let mut response = document(status, title, &self.to_string());
        let headers = response.headers_mut();
        if let Self::Method { allow } = self {
            headers.extend(HeaderValue::try_from(allow).map(|allow| (ALLOW, allow)));
        } else if let Self::NoUpgrade = self {
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        } else if [StatusCode::SERVICE_UNAVAILABLE, StatusCode::TOO_MANY_REQUESTS].contains(&status) {
            let retry_after_s = match self {
                Self::Broker(broker::Error::RateExceeded { retry_after_s, .. }) | Self::UnknownKey(retry_after_s) => {
                    retry_after_s
                }
                _ => RETRY_AFTER_S.into(),
            };
            headers.insert(RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        response
    }
}

/// Returns a `401` response. Clients of Keystone expect the document of its middleware, and nothing
/// else in it.
fn unauthenticated(reason: &str, challenges: &Challenges) -> Response {
    let status = StatusCode::UNAUTHORIZED;
    let mut response = match challenges.keystone_uri {
        Some(_) => {
            let body = json!({ "error": { "code": status.as_u16(), "title": "Unauthorized", "message": reason } });
            json_response(status, &body)
        }
        None => document(status, "Unauthorized", reason),
    };
    let keystone = challenges.keystone_uri.as_ref().map(|uri| HeaderValue::try_from(format!("Keystone uri=\"{uri}\"")));
    let bearer = challenges.bearer.then_some(HeaderValue::from_static("Bearer realm=\"sukkal\""));
    // RFC 9110 requires a challenge.
    let proxy = HeaderValue::from_static("Proxy realm=\"sukkal\"");
    let mut all: Vec<_> = keystone.into_iter().flatten().chain(bearer).collect();
    if all.is_empty() {
        all.push(proxy);
    }
    response.headers_mut().extend(all.into_iter().map(|challenge| (WWW_AUTHENTICATE, challenge)));
    response
}

fn document(status: StatusCode, title: &str, description: &str) -> Response {
    let mut body = json!({ "title": title, "description": description });
    if status == StatusCode::NOT_ACCEPTABLE {
        body["link"] = json!({ "text": "API documentation", "href": "/docs", "rel": "help" });
    }
    ([(VARY, "Accept")], json_response(status, &body)).into_response()
}

fn json_response(status: StatusCode, body: &Value) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
