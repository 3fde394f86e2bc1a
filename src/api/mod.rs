//! The HTTP routes. Each handler takes values from the request, calls the broker once, and
//! responds.

mod backup;
mod claims;
mod console;
mod content_negotiation;
mod discovery;
mod extract;
mod flavors;
mod messages;
mod middleware;
mod no_route;
mod parameters;
mod pools;
mod projects;
mod queues;
mod quotas;
mod response;
mod route;
mod server;
mod service;
mod share;
mod stream;
mod stream_credential;
mod subscriptions;
mod tasks;
mod tokens;
mod warnings;
mod websocket;

use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::routing::any;

use self::middleware::outage::Outage;
use self::middleware::request_checks::Requirement;
use self::middleware::stack::WithMiddleware;
pub use self::parameters::Parameters;
use self::route::Route;
pub use self::server::{ClientCertificates, Listener, ServerLimits, Tls, TlsError, TlsFiles, serve};
pub use self::service::{Service, Settings};
pub use self::websocket::WebSocketLimits;
use crate::broker::Broker;
use crate::observability::metrics::Metrics;
use crate::observability::telemetry::Tracer;
use sukkal_domain::QueueKind;

/// The paths of a queue and a topic without a name. They are not paths of the API, but their errors
/// name what is missing.
const NAMELESS: [&str; 2] = ["/v2/queues/", "/v2/topics/"];

/// Creates the state of the HTTP service.
#[must_use]
pub fn service(broker: Broker, settings: Settings, metrics: Arc<Metrics>, tracer: Option<Tracer>) -> Service {
    let routes = all_routes(&settings);
    let console = console_routes(&settings);
    let paths = routes.iter().chain(&console).map(Route::path).chain(NAMELESS).chain([websocket::PATH]);
    Service::new(broker, settings, metrics, tracer, paths)
}

/// Returns the router of the whole HTTP service.
pub fn router(service: Service) -> Router {
    let nameless = || any(WithMiddleware::new(Requirement::Caller, Outage::StoreState, queues::nameless));
    let open = WithMiddleware::new(Requirement::Nothing, Outage::StoreState, websocket::open);
    let all = all_routes(&service.settings).into_iter().chain(console_routes(&service.settings));
    let router = router_of(all, Requirement::Sender).route(websocket::PATH, any(open));
    NAMELESS.into_iter().fold(router, |router, path| router.route(path, nameless())).with_state(service)
}

/// Returns the router of the listener for monitoring.
pub fn operations_router(service: Service) -> Router {
    router_of(discovery::operations_routes().into_iter(), Requirement::Nothing).with_state(service)
}

/// Returns the router of the listener for WebSockets, which opens one on any path.
pub fn websocket_router(service: Service) -> Router {
    let open = WithMiddleware::new(Requirement::Nothing, Outage::StoreState, websocket::open);
    Router::new().fallback(open).with_state(service)
}

/// Returns a router of these routes. `requirement` applies to all other paths.
fn router_of(routes: impl Iterator<Item = Route>, requirement: Requirement) -> Router<Service> {
    let no_route = WithMiddleware::new(requirement, Outage::StoreState, no_route::no_route);
    routes.fold(Router::new().fallback(no_route), |router, route| route.add_to(router))
}

/// Returns each path of the API with its methods and their query parameters. The path that opens a
/// WebSocket and those of the console are not among them.
#[must_use]
pub fn routes(settings: &Settings) -> Vec<(&'static str, Vec<(Method, Parameters)>)> {
    all_routes(settings).iter().map(|route| (route.path(), route.methods())).collect()
}

fn console_routes(settings: &Settings) -> Vec<Route> {
    if settings.console { console::routes() } else { Vec::new() }
}

fn all_routes(settings: &Settings) -> Vec<Route> {
    let mut routes = discovery::routes(settings.admin_mode);
    routes.extend(projects::routes(settings.admin_mode));
    routes.extend(tokens::routes(settings.authenticator.verifies_api_keys()));
    routes.extend(quotas::routes(settings.admin_mode));
    routes.extend(backup::routes(settings.admin_mode));
    routes.extend(pools::routes(settings.has_pools()));
    routes.extend(flavors::routes(settings.has_pools()));
    for kind in QueueKind::ALL {
        routes.extend(queues::routes(kind, settings.has_pools()));
        routes.extend(messages::routes(kind));
        routes.extend(subscriptions::routes(kind));
        routes.extend(share::routes(kind));
    }
    routes.extend(claims::routes());
    routes.extend(tasks::routes());
    routes.extend(discovery::open_routes());
    routes
}
