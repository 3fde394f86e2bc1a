//! A row of the route table: a path with its methods, and for each method the handler and the
//! sentence of its `503`.
//!
//! `OPTIONS` and the `Allow` header of a `405` are derived from the methods.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::http::header::ALLOW;
use axum::routing::{MethodFilter, MethodRouter};

use super::middleware::outage::Outage;
use super::middleware::request_checks::Requirement;
use super::middleware::stack::WithMiddleware;
use super::parameters::Parameters;
use super::service::Service;
use crate::wire::Error;

/// Returns the path of a queue or of a topic that ends with this text.
macro_rules! path_of {
    ($kind:expr, $below:literal) => {
        match $kind {
            ::sukkal_domain::QueueKind::Queue => concat!("/v2/queues/{queue_name}", $below),
            ::sukkal_domain::QueueKind::Topic => concat!("/v2/topics/{topic_name}", $below),
        }
    };
}
/// Returns a sentence that begins with "Queue" or "Topic".
macro_rules! sentence_of {
    ($kind:expr, $end:literal) => {
        match $kind {
            ::sukkal_domain::QueueKind::Queue => concat!("Queue", $end),
            ::sukkal_domain::QueueKind::Topic => concat!("Topic", $end),
        }
    };
}
pub(super) use {path_of, sentence_of};

/// A path of the API with its methods. All handlers are wrapped in the middleware.
pub(super) struct Route {
    path: &'static str,
    requirement: Requirement,
    methods: Vec<(Method, Parameters)>,
    router: MethodRouter<Service>,
}

/// Creates a route that requires a caller.
pub(super) fn route(path: &'static str) -> Route {
    open_route(path, Requirement::Caller)
}

/// Creates a route with this requirement.
pub(super) fn open_route(path: &'static str, requirement: Requirement) -> Route {
    Route { path, requirement, methods: Vec::new(), router: MethodRouter::new() }
}

impl Route {
    /// Adds a method that has no query parameters. `outage` is the sentence of the `503` response
    /// if the store is unavailable.
    pub(super) fn on<T: 'static, H: Handler<T, Service>>(
        self,
        method: Method,
        outage: impl Into<Outage>,
        handler: H,
    ) -> Self {
        self.on_query(method, outage, Parameters::NONE, handler)
    }

    /// Adds a method with its query parameters.
    pub(super) fn on_query<T: 'static, H: Handler<T, Service>>(
        mut self,
        method: Method,
        outage: impl Into<Outage>,
        parameters: Parameters,
        handler: H,
    ) -> Self {
        let filter = MethodFilter::try_from(method.clone()).expect("all methods of the API are standard methods");
        let handler = WithMiddleware::new(self.requirement, outage.into(), handler).with_parameters(parameters);
        self.router = self.router.on(filter, handler);
        self.methods.push((method, parameters));
        self
    }

    /// Returns the path template.
    pub(super) fn path(&self) -> &'static str {
        self.path
    }

    /// Returns the methods in alphabetical order, including `OPTIONS`, each with its query
    /// parameters.
    pub(super) fn methods(&self) -> Vec<(Method, Parameters)> {
        let mut methods = self.methods.clone();
        methods.push((Method::OPTIONS, Parameters::NONE));
        methods.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        methods
    }

    /// Adds the route to a router: its methods, `OPTIONS`, and a `405` response for all other
    /// methods.
    pub(super) fn add_to(self, router: Router<Service>) -> Router<Service> {
        let methods = self.methods();
        let allow = methods.iter().map(|(method, _)| method.as_str()).collect::<Vec<_>>().join(", ");
        let refused = allow.clone();
        let refuse = move || async move { Error::Method { allow: refused } };
        let route = self.on(Method::OPTIONS, Outage::StoreState, move || async move { [(ALLOW, allow)] });
        let refuse = WithMiddleware::new(route.requirement, Outage::StoreState, refuse);
        router.route(route.path, route.router.fallback(refuse))
    }
}
