//! Wraps a handler in all the middleware.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::Arc;

use axum::body::HttpBody;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::header::{CACHE_CONTROL, CONNECTION};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use super::audit;
use super::authentication::{Proof, authenticate};
use super::body_drain::RequestBody;
use super::cors::{self, Sharing};
use super::metering::may_wait;
use super::outage::{self, Outage};
use super::own_host;
use super::request_checks::{self, Requirement};
use super::request_log;
use crate::api::parameters::Parameters;
use crate::api::server::connection::Connection;
use crate::api::server::watched::watched;
use crate::api::service::Service;
use crate::api::warnings::Warnings;
use crate::wire::Error;
use crate::wire::error::internal;
use sukkal_domain::Warning;

/// A handler whose requests are checked, counted and logged.
///
/// This is a handler and not a layer of the router, because a layer costs every request several
/// allocations and copies.
#[derive(Clone)]
pub(in crate::api) struct WithMiddleware<H> {
    handler: H,
    requirement: Requirement,
    outage: Outage,
    /// The query parameters of a request. Only routes that require a caller warn about others.
    parameters: Parameters,
}

impl<H> WithMiddleware<H> {
    /// Wraps a handler whose requests have no query parameters.
    pub(in crate::api) fn new(requirement: Requirement, outage: Outage, handler: H) -> Self {
        Self { handler, requirement, outage, parameters: Parameters::NONE }
    }

    /// Sets the query parameters of a request.
    pub(in crate::api) fn with_parameters(self, parameters: Parameters) -> Self {
        Self { parameters, ..self }
    }
}

impl<T: 'static, H: Handler<T, Service>> Handler<T, Service> for WithMiddleware<H> {
    type Future = Pin<Box<dyn Future<Output = Response> + Send>>;

    fn call(self, request: Request, service: Service) -> Self::Future {
        Box::pin(handle(request, service, self))
    }
}

async fn handle<T, H: Handler<T, Service>>(
    mut request: Request,
    service: Service,
    wrapped: WithMiddleware<H>,
) -> Response {
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let is_head = request.method() == Method::HEAD;
    let origins = service.settings.cors_origins.as_ref();
    let sharing = origins.map(|origins| Sharing::of(request.headers(), origins));
    if let Some(connection) = &connection
        && !is_head
        && may_wait(request.uri().query())
    {
        connection.begin_wait();
    }
    let body = RequestBody::replace_in(&mut request, service.settings.client_timeout);
    // Health checks and readers of the metrics would fill the traces.
    let is_traced = matches!(wrapped.requirement, Requirement::Caller | Requirement::Public);
    let tracer = service.tracer.as_ref().filter(|_| is_traced);
    let lacks_tls = connection.as_ref().is_some_and(|connection| connection.lacks_tls());
    let call_handler = async |request| {
        // Pinned, so that it is not moved: it is large.
        let called = pin!(async {
            if lacks_tls { Err(Error::TlsMissing) } else { call(request, body.as_ref(), &service, wrapped).await }
        });
        AssertUnwindSafe(called).catch_unwind().await.map_or_else(log_panic, IntoResponse::into_response)
    };
    let respond = async |request| {
        let mut response = service.meters.measure(request, body.as_ref(), call_handler).await;
        audit::end(&response).await;
        if let (Some(body), Some(connection)) = (&body, &connection) {
            if connection.is_known() && body.drain().await && response.status().is_success() {
                response = (Warnings(vec![Warning::BodyIgnored]), response).into_response();
            }
            if body.is_unread() {
                connection.close_unread();
            }
        }
        response
    };
    let mut response = request_log::log(request, tracer, service.settings.audit.as_ref(), respond).await;
    // A cache that does not know the credentials of Zaqar would show one client the messages of
    // another.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(sharing) = sharing {
        sharing.add_to(response.headers_mut());
    }
    let Some(connection) = connection else { return response };
    if service.stopping.is_cancelled() {
        connection.close_after_response();
    }
    let is_stream = !is_head && response.body().size_hint().exact().is_none();
    if connection.begin_response(is_stream) {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    watched(response, &connection)
}

/// Calls the handler if the request has what its route requires.
async fn call<T, H: Handler<T, Service>>(
    request: Request,
    body: Option<&RequestBody>,
    service: &Service,
    WithMiddleware { handler, requirement, outage, parameters }: WithMiddleware<H>,
) -> Result<Response, Error> {
    request_checks::check_head(&request)?;
    let origins = service.settings.cors_origins.as_ref();
    if let Some(response) = origins.and_then(|origins| cors::preflight(&request, origins)) {
        return Ok(response);
    }
    match requirement {
        Requirement::Caller => {
            let description = outage.description(request.uri().query());
            let response =
                request_checks::check_and_call(request, body, service, parameters, handler).await.into_response();
            Ok(outage::describe(response, description))
        }
        Requirement::Sender => {
            let proof = authenticate(&request, &service.settings).await?;
            if let (Proof::Sender(_), Some(connection)) = (proof, request.extensions().get::<Arc<Connection>>()) {
                connection.note_known();
            }
            Ok(handler.call(request, service.clone()).await)
        }
        Requirement::Public => {
            own_host::check(request.headers(), &service.settings)?;
            request_checks::check_public(&request)?;
            Ok(handler.call(request, service.clone()).await)
        }
        Requirement::Nothing => {
            own_host::check(request.headers(), &service.settings)?;
            Ok(handler.call(request, service.clone()).await)
        }
    }
}

/// Logs the panic of a handler and returns the response to its request.
#[expect(clippy::needless_pass_by_value, reason = "map_or_else passes it by value")]
fn log_panic(panic: Box<dyn Any + Send>) -> Response {
    let message = panic.downcast_ref::<String>().map(String::as_str);
    let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(panic = message, "a handler panicked");
    internal()
}
