//! The HTTP routes: each handler extracts, calls the broker once, and answers.

mod admission;
mod answer;
mod claims;
mod connections;
mod delivery;
mod discovery;
mod hearing;
mod memory;
mod messages;
mod metering;
mod outage;
mod queues;
mod representation;
mod request_log;
mod resource;
mod server;
mod share;
mod stream;
mod view;
mod warnings;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::HttpBody;
use axum::extract::{FromRef, MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures::FutureExt;

use self::connections::Connection;
use self::memory::MemoryBudget;
use self::metering::Meters;
use self::resource::Resource;
pub use self::server::{Serving, serve};
use super::Error;
use super::error::internal;
use super::wire::checksum::Checksums;
use crate::auth::signed_url::Signer;
use crate::broker::Broker;
use crate::domain::ClientIdRule;
use crate::metrics::Metrics;

/// Maximum size in bytes of the bodies of all requests that are under way, as far as they have arrived.
const BODIES_BYTES_MAX: usize = 256 << 20;
/// Maximum size in bytes of the events that all streams hold because their clients do not read, beside the buffers of their connections.
const EVENTS_BYTES_MAX: usize = 64 << 20;

/// What handlers work with.
#[derive(Clone)]
pub struct Service {
    /// Does what callers ask.
    pub broker: Broker,
    /// How the API behaves.
    pub settings: Arc<Settings>,
    /// What the process counts about itself.
    pub metrics: Arc<Metrics>,
    bodies: MemoryBudget,
    events: MemoryBudget,
}

impl Service {
    /// A service that works with these.
    #[must_use]
    pub fn new(broker: Broker, settings: Settings, metrics: Arc<Metrics>) -> Self {
        let (bodies, events) = (MemoryBudget::new(BODIES_BYTES_MAX), MemoryBudget::new(EVENTS_BYTES_MAX));
        Self { broker, settings: Arc::new(settings), metrics, bodies, events }
    }
}

impl FromRef<Service> for Broker {
    fn from_ref(service: &Service) -> Self {
        service.broker.clone()
    }
}

/// How the API behaves, as the operator wants it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whether the operators' routes are there.
    pub admin_mode: bool,
    /// Which texts are client ids.
    pub client_id: ClientIdRule,
    /// How long a client may pause while it sends a request.
    pub client_timeout: Duration,
    /// Who signs URLs, if anybody does.
    pub signer: Option<Signer>,
    /// Whether documents of messages carry checksums.
    pub checksums: Checksums,
    /// How often a stream on which nothing happens shows that it is alive.
    pub stream_heartbeat: Duration,
}

/// A queue without a name; no route of the API, and answered by its words.
const NAMELESS: &str = "/v2/queues/";

/// What all requests are received with.
struct Reception {
    service: Service,
    meters: Meters,
}

/// The whole HTTP service.
pub fn router(service: Service) -> Router {
    let paths = routes(&service.settings).into_iter().map(|(path, _)| path);
    let meters = Meters::new(&service.metrics, paths.chain([NAMELESS]));
    let reception = Arc::new(Reception { service: service.clone(), meters });
    let v2 = resources(&service.settings)
        .into_iter()
        .fold(Router::new(), |router, resource| router.route(resource.path, resource.methods))
        .route(NAMELESS, any(queues::nameless));
    discovery::open_routes()
        .into_iter()
        .fold(v2, |router, resource| router.route(resource.path, resource.methods))
        .fallback(|| async { Error::NoRoute })
        .layer(middleware::from_fn_with_state(reception, receive))
        .with_state(service)
}

/// The routes for monitoring alone.
pub fn operations_router(service: Service) -> Router {
    let meters = Meters::new(&service.metrics, discovery::operations_routes().into_iter().map(|route| route.path));
    let reception = Arc::new(Reception { service: service.clone(), meters });
    discovery::operations_routes()
        .into_iter()
        .fold(Router::new(), |router, resource| router.route(resource.path, resource.methods))
        .fallback(|| async { Error::NoRoute })
        .layer(middleware::from_fn_with_state(reception, receive))
        .with_state(service)
}

/// What every request goes through. One function: each layer of a router costs every request a box and a copy.
async fn receive(State(reception): State<Arc<Reception>>, request: Request, next: Next) -> Response {
    let Reception { service, meters } = &*reception;
    let patience = service.settings.client_timeout;
    let handle = async |request| match admission::check_message(&request) {
        Ok(()) if needs_caller(&request) => {
            outage::name_the_loss(request, |request| admission::admit(service, request, next)).await
        }
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    };
    let handle =
        |request| AssertUnwindSafe(handle(request)).catch_unwind().map(|answer| answer.unwrap_or_else(broken_down));
    let handle = |request| meters.count(request, handle);
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let mut response = request_log::log(request, |request| hearing::hear_out(request, patience, handle)).await;
    if let Some(connection) = connection
        && connection.begin_answer(response.body().size_hint().exact().is_none())
    {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Whether a request is for a route of the API, and not for one that is open to everybody or for none.
fn needs_caller(request: &Request) -> bool {
    request.extensions().get::<MatchedPath>().is_some_and(|path| path.as_str().starts_with("/v2"))
}

/// What a request gets whose handler panicked, and the log with it.
#[expect(clippy::needless_pass_by_value, reason = "it is handed over")]
fn broken_down(panic: Box<dyn Any + Send>) -> Response {
    let words = panic.downcast_ref::<String>().map(String::as_str);
    let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it says nothing");
    tracing::error!(panic = words, "a handler panicked");
    internal()
}

/// Each path that is served with its methods, as in `Allow`.
#[must_use]
pub fn routes(settings: &Settings) -> Vec<(&'static str, &'static str)> {
    resources(settings)
        .into_iter()
        .chain(discovery::open_routes())
        .map(|resource| (resource.path, resource.allow))
        .collect()
}

fn resources(settings: &Settings) -> Vec<Resource> {
    let mut resources = discovery::routes(settings.admin_mode);
    resources.extend(queues::routes());
    resources.extend(messages::routes());
    resources.extend(claims::routes());
    resources.extend(share::routes());
    resources
}
