//! A row of the table of actions: the name, the fields that it accepts, the equivalent HTTP route,
//! and its handler.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::handler::Handler;
use axum::http::Method;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::api::middleware::outage::Outage;
use crate::api::middleware::request_checks::{RequestContext, Requirement};
use crate::api::middleware::stack::WithMiddleware;
use crate::api::service::Service;
use crate::api::warnings::Warnings;
use crate::broker::quotas::ConcurrencyUnit;
use crate::broker::subscriptions::ConnectedSubscription;
use crate::wire::Error;
use crate::wire::frame::{FieldType, FrameRequest};
use crate::wire::headers;
use sukkal_base::memory_budget::MemoryShare;
use sukkal_domain::warning::{NameKind, of_unknown};
use sukkal_domain::{ProjectId, Warning};

/// The path on the port of the HTTP API. Requests that authenticate count for it too.
pub(in crate::api) const PATH: &str = "/v2/websocket";
/// Maximum size in bytes of a page of a list, besides its last message.
const PAGE_BYTES_MAX: usize = 512 << 10;
const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'-').remove(b'.').remove(b'~');

type Handle = Box<dyn Fn(Request, Service) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// An action of the API.
pub(super) struct Action {
    pub(super) name: &'static str,
    /// The method of the equivalent HTTP request.
    pub(super) method: Method,
    /// The path template of the equivalent HTTP request. A request must have each parameter of the
    /// path in its body, as a text.
    pub(super) path: &'static str,
    /// Whether a signature can allow the action.
    pub(super) is_signable: bool,
    /// Whether the reply may have a page of a list.
    pub(super) returns_page: bool,
    /// Further fields that a request must have.
    required: &'static [(&'static str, FieldType)],
    /// Fields that a request may have.
    optional: &'static [(&'static str, FieldType)],
    handle: Handle,
}

/// Creates an action. `outage` is the sentence of its `503`.
pub(super) fn action<T: 'static, H: Handler<T, Service> + Sync>(
    name: &'static str,
    method: Method,
    path: &'static str,
    outage: &'static str,
    handler: H,
) -> Action {
    let handler = WithMiddleware::new(Requirement::Caller, Outage::from(outage), handler);
    let handle: Handle = Box::new(move |request, service| handler.clone().call(request, service));
    Action { name, method, path, is_signable: false, returns_page: false, required: &[], optional: &[], handle }
}

impl Action {
    pub(super) fn requires(self, required: &'static [(&'static str, FieldType)]) -> Self {
        Self { required, ..self }
    }

    pub(super) fn accepts(self, optional: &'static [(&'static str, FieldType)]) -> Self {
        Self { optional, ..self }
    }

    /// Lets a signature allow the action.
    pub(super) fn signable(self) -> Self {
        Self { is_signable: true, ..self }
    }

    /// Returns whether the action authenticates the connection.
    pub(super) fn authenticates(&self) -> bool {
        self.path == PATH
    }

    pub(super) fn returns_page(self) -> Self {
        Self { returns_page: true, ..self }
    }

    /// Succeeds if a request has the headers and fields that the action needs. The error says what
    /// is missing or has the wrong type.
    pub(super) fn check(&self, frame: &FrameRequest) -> Result<(), String> {
        if !frame.has_objects() {
            return Err("\"headers\" must be an object, and \"body\" too unless it is absent".to_owned());
        }
        frame.check_values().map_err(|error| error.to_string())?;
        let headers: &[&str] = if self.authenticates() { &["X-Project-ID"] } else { &["Client-ID", "X-Project-ID"] };
        for name in headers {
            if !frame.header(name).is_some_and(|value| value.is_string()) {
                return Err(format!("the header {name} must be a text"));
            }
        }
        let parameters = self.parameters().map(|name| (name, FieldType::Text));
        for (name, expected) in parameters.chain(self.required.iter().copied()) {
            if frame.field_has_type(name, expected) != Some(true) {
                return Err(format!("the body must have \"{name}\", which must be {expected}"));
            }
        }
        for (name, expected) in self.optional {
            if frame.field_has_type(name, *expected) == Some(false) {
                return Err(format!("\"{name}\" in the body must be {expected}"));
            }
        }
        Ok(())
    }

    /// Returns warnings about what a request has and the action does not use.
    pub(super) fn warnings(&self, frame: &FrameRequest) -> Vec<Warning> {
        let fields = self.required.iter().chain(self.optional).map(|(name, _)| *name);
        let known: Vec<&'static str> = self.parameters().chain(fields).collect();
        let fields = of_unknown(NameKind::Field, &known, frame.field_names());
        let headers = of_unknown(NameKind::Header, &headers::OF_FRAMES, frame.header_names());
        frame.warnings.iter().cloned().chain(fields).chain(headers).collect()
    }

    /// Returns the parameters of the path.
    fn parameters(&self) -> impl Iterator<Item = &'static str> {
        self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// Returns the path of the equivalent HTTP request.
    pub(super) fn path_of(&self, frame: &FrameRequest) -> String {
        let mut path = String::with_capacity(128);
        for segment in self.path.split('/').skip(1) {
            path.push('/');
            match segment.strip_prefix('{').and_then(|segment| segment.strip_suffix('}')) {
                // No name and no id has a slash, and none has the character that replaces it here.
                Some(name) => {
                    let value = frame.text(name).unwrap_or_default().replace('/', "\u{fffd}");
                    path.extend(utf8_percent_encode(&value, UNESCAPED));
                }
                None => path.push_str(segment),
            }
        }
        path
    }

    /// Handles the HTTP request of a frame.
    pub(super) async fn handle(&self, request: Request, service: Service) -> Response {
        (self.handle)(request, service).await
    }
}

/// The request in a frame, as its handler sees it, and the connection.
#[derive(Clone)]
pub(super) struct Frame(pub(super) Arc<FrameContext>);

pub(super) struct FrameContext {
    pub(super) request: FrameRequest,
    /// Identifies the connection.
    pub(super) connection: Uuid,
    /// Where the handler leaves a new subscription of the connection.
    pub(super) subscribed: Mutex<Option<ConnectedSubscription>>,
    /// Whether the reply may have a page of a list.
    pub(super) returns_page: bool,
    /// Counts the request of its project until its reply is written.
    pub(super) in_progress: Mutex<Option<InProgress>>,
}

/// A request in progress, whose reply is not written yet.
pub(super) struct InProgress {
    _unit: ConcurrencyUnit,
    /// The memory for the reply.
    reply: MemoryShare,
}

impl InProgress {
    /// Begins a request of a project. A client that does not read holds its reply, so the memory is
    /// taken before the request changes anything.
    fn begin(service: &Service, project: &ProjectId, returns_page: bool) -> Result<Self, Error> {
        let unit = service.broker.begin_socket_request(project)?;
        let reply = service.responses.share(project);
        if returns_page {
            let message_bytes_max = usize::try_from(service.broker.limits().max_messages_post_size);
            let bytes = PAGE_BYTES_MAX.saturating_add(message_bytes_max.unwrap_or(usize::MAX));
            reply.take(bytes).map_err(|_exceeded| Error::ReplyBudget)?;
        }
        Ok(Self { _unit: unit, reply })
    }

    /// Returns the memory for the reply, without that which was taken before its size was known.
    pub(super) fn reply_memory(&self) -> &MemoryShare {
        self.reply.release();
        &self.reply
    }
}

impl FromRequestParts<Service> for Frame {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, service: &Service) -> Result<Self, Error> {
        let frame: Self = parts.extensions.get().cloned().expect("each request of a WebSocket has its frame");
        let context: &RequestContext = parts.extensions.get().expect("handlers are called after the checks only");
        let in_progress = InProgress::begin(service, &context.client.project, frame.0.returns_page)?;
        *frame.0.in_progress.lock().await = Some(in_progress);
        Ok(frame)
    }
}

impl Frame {
    pub(super) fn request(&self) -> &FrameRequest {
        &self.0.request
    }

    /// Returns a response with this document, in the format of the frame.
    pub(super) fn respond(&self, status: u16, document: &impl Serialize) -> Result<Response, Error> {
        self.respond_with(status, document, Vec::new())
    }

    /// The same with warnings.
    pub(super) fn respond_with(
        &self,
        status: u16,
        document: &impl Serialize,
        warnings: Vec<Warning>,
    ) -> Result<Response, Error> {
        let document = self.request().kind.write(document)?;
        let status = axum::http::StatusCode::from_u16(status).expect("handlers use known statuses");
        let mut response = (status, Warnings(warnings), document).into_response();
        response.extensions_mut().insert(IsDocument);
        Ok(response)
    }
}

/// Marks a response whose body is a document in the format of the frame. Other responses are
/// errors.
#[derive(Clone, Copy)]
pub(super) struct IsDocument;
