//! The HTTP routes: each handler extracts, calls the broker once, and answers.

mod admission;
mod claims;
mod discovery;
mod hearing;
mod messages;
mod outage;
mod queues;
mod request_log;
mod resource;
mod server;
mod share;
mod view;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::FromRef;
use axum::middleware;
use axum::response::Response;
use axum::routing::any;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::timeout::RequestBodyTimeoutLayer;

use self::resource::Resource;
pub use self::server::serve;
use super::Error;
use super::error::internal;
use super::wire::checksum::Checksums;
use crate::auth::signed_url::Signer;
use crate::broker::Broker;
use crate::domain::ClientIdRule;

/// What handlers work with.
#[derive(Clone)]
pub struct Service {
    /// Does what callers ask.
    pub broker: Broker,
    /// How the API behaves.
    pub settings: Arc<Settings>,
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
}

/// The whole HTTP service.
pub fn router(service: Service) -> Router {
    let admit = middleware::from_fn_with_state(service.clone(), admission::admit);
    let v2 = resources(&service.settings)
        .into_iter()
        .fold(Router::new(), |router, resource| router.route(resource.path, resource.methods))
        .route("/v2/queues/", any(queues::nameless))
        .route_layer(admit)
        .route_layer(middleware::from_fn(outage::name_the_loss));
    discovery::open_routes()
        .into_iter()
        .fold(v2, |router, resource| router.route(resource.path, resource.methods))
        .fallback(|| async { Error::NoRoute })
        .layer(middleware::from_fn(hearing::hear_out))
        .layer(RequestBodyTimeoutLayer::new(service.settings.client_timeout))
        .layer(CatchPanicLayer::custom(broken_down))
        .layer(middleware::from_fn(request_log::log))
        .with_state(service)
}

/// What a request gets whose handler panicked, and the log with it.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
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
