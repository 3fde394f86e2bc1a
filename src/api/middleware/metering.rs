//! Counts every response and measures the duration of its request, by the path template of the
//! route: the number of different paths has no limit.
//!
//! A request counts when its response begins. So a stream counts at its start, and a request whose
//! client disconnects before the response does not count. A request with `wait` is counted but not
//! timed, because how long a queue was empty says nothing about the service. The time starts when
//! the body has arrived, however slowly the client sends it.

use std::future::Future;
use std::time::Instant;

use ahash::HashMap;
use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::response::Response;

use super::body_drain::RequestBody;
use crate::observability::metrics::{Metrics, RouteMeter};
use crate::wire::query::Query;

/// The route label of requests without a route.
pub(super) const NO_ROUTE: &str = "none";

/// The path template of a request that did not come through the router, because it came from a
/// WebSocket.
#[derive(Clone, Copy)]
pub(in crate::api) struct PathTemplate(pub(in crate::api) &'static str);

/// Returns the path template of the route that a request belongs to.
pub(super) fn path_template(request: &Request) -> Option<&str> {
    let extensions = request.extensions();
    let matched = extensions.get::<MatchedPath>().map(MatchedPath::as_str);
    matched.or_else(|| extensions.get::<PathTemplate>().map(|template| template.0))
}

/// The metrics of each route.
pub(in crate::api) struct Meters {
    routes: HashMap<&'static str, RouteMeter>,
    no_route: RouteMeter,
}

impl Meters {
    /// Creates the metrics of the routes with these paths.
    pub(in crate::api) fn new(metrics: &Metrics, paths: impl Iterator<Item = &'static str>) -> Self {
        Self { routes: paths.map(|path| (path, metrics.route(path))).collect(), no_route: metrics.route(NO_ROUTE) }
    }

    /// Handles a request, counts its response and measures its duration.
    pub(super) async fn measure<F: Future<Output = Response>>(
        &self,
        request: Request,
        body: Option<&RequestBody>,
        handle: impl FnOnce(Request) -> F,
    ) -> Response {
        let meter = path_template(&request).and_then(|path| self.routes.get(path)).unwrap_or(&self.no_route);
        let method = label(request.method());
        let is_timed = !may_wait(request.uri().query());
        let start = Instant::now();
        let response = handle(request).await;
        meter.answered(method, response.status().as_u16());
        if is_timed {
            // The handler reads the body, so the body arrives after the start.
            meter.took(body.and_then(RequestBody::last_arrival).unwrap_or(start).elapsed());
        }
        response
    }
}

/// Returns whether the query asks to wait for messages.
pub(super) fn may_wait(query: Option<&str>) -> bool {
    // Only the few queries that contain the word are parsed.
    query.is_some_and(|text| text.contains("wait"))
        && Query::parse(query).integer("wait").is_ok_and(|wait_s| wait_s.is_some_and(|wait_s| wait_s > 0))
}

/// Returns the label of a method. A client can send any word as the method, so unknown methods
/// share a label.
pub(super) fn label(method: &Method) -> &'static str {
    match method.as_str() {
        "DELETE" => "DELETE",
        "GET" => "GET",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        "PATCH" => "PATCH",
        "POST" => "POST",
        "PUT" => "PUT",
        _ => "other",
    }
}
