//! The HTTP routes. Each handler takes values from the request, calls the broker once, and
//! responds.

mod claims;
mod content_negotiation;
mod discovery;
mod extract;
mod memory_budget;
mod messages;
mod middleware;
mod queues;
mod resource;
mod response;
mod server;
mod service;
mod share;
mod stream;
mod tasks;
mod warnings;

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::any;

use self::middleware::admission::Access;
use self::middleware::outage::Outage;
use self::middleware::stack::WithMiddleware;
use self::resource::Resource;
pub use self::server::{ServerLimits, serve};
pub use self::service::{Service, Settings};
use super::Error;
use crate::broker::Broker;
use crate::metrics::Metrics;

/// The path of a queue without a name. It is not a resource of the API, but its error names what is
/// missing.
const NAMELESS_QUEUE: &str = "/v2/queues/";

/// Creates the state of the HTTP service.
#[must_use]
pub fn service(broker: Broker, settings: Settings, metrics: Arc<Metrics>) -> Service {
    let paths: Vec<&'static str> = resources(&settings).iter().map(Resource::path).chain([NAMELESS_QUEUE]).collect();
    Service::new(broker, settings, metrics, paths.into_iter())
}

/// Returns the router of the whole HTTP service.
pub fn router(service: Service) -> Router {
    let nameless = WithMiddleware::new(Access::Caller, Outage::StoreState, queues::nameless);
    route(resources(&service.settings)).route(NAMELESS_QUEUE, any(nameless)).with_state(service)
}

/// Returns the router of the listener for monitoring.
pub fn operations_router(service: Service) -> Router {
    route(discovery::operations_routes()).with_state(service)
}

fn route(resources: Vec<Resource>) -> Router<Service> {
    let no_route = WithMiddleware::new(Access::Unchecked, Outage::StoreState, || async { Error::NoRoute });
    resources.into_iter().fold(Router::new().fallback(no_route), |router, resource| resource.add_to(router))
}

/// Returns each path that is served with its methods.
#[must_use]
pub fn routes(settings: &Settings) -> Vec<(&'static str, Vec<Method>)> {
    resources(settings).iter().map(|resource| (resource.path(), resource.methods())).collect()
}

fn resources(settings: &Settings) -> Vec<Resource> {
    let mut resources = discovery::routes(settings.admin_mode);
    resources.extend(queues::routes());
    resources.extend(messages::routes());
    resources.extend(claims::routes());
    resources.extend(tasks::routes());
    resources.extend(share::routes());
    resources.extend(discovery::open_routes());
    resources
}
