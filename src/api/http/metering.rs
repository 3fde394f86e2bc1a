//! Every answer is counted, and its request timed, under the template of its route: paths are without number.
//!
//! A request counts when its answer begins: a stream then, and one whose client has gone before not at all. One that asks
//! to wait is counted and not timed, because how long nothing came says nothing about the service. The time begins when
//! the body has arrived, however slowly the client has sent it.

use std::collections::HashMap;
use std::future::Future;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use axum::response::Response;

use super::hearing::Arriving;
use crate::api::wire::query::Query;
use crate::metrics::{Metrics, RouteMeter};

/// The route of requests that no route takes.
const NONE: &str = "none";

/// A meter for each route.
pub(super) struct Meters {
    routes: HashMap<&'static str, RouteMeter>,
    none: RouteMeter,
}

impl Meters {
    /// Meters for these routes.
    pub(super) fn new(metrics: &Metrics, routes: impl Iterator<Item = &'static str>) -> Self {
        Self { routes: routes.map(|route| (route, metrics.route(route))).collect(), none: metrics.route(NONE) }
    }

    /// Handles a request and counts its answer.
    pub(super) async fn count<F: Future<Output = Response>>(
        &self,
        request: Request,
        handle: impl FnOnce(Request) -> F,
    ) -> Response {
        let path = request.extensions().get::<MatchedPath>();
        let meter = path.and_then(|path| self.routes.get(path.as_str())).unwrap_or(&self.none);
        let method = name(request.method());
        let is_timed = !asks_to_wait(request.uri().query());
        let body = request.extensions().get::<Arriving>().cloned();
        let start = Instant::now();
        let response = handle(request).await;
        meter.answered(method, response.status().as_u16());
        if is_timed {
            // The handler reads the body, so it arrives after the start.
            meter.took(body.and_then(|body| body.last_arrival()).unwrap_or(start).elapsed());
        }
        response
    }
}

fn asks_to_wait(query: Option<&str>) -> bool {
    // Few have the word, and only those are read for it.
    query.is_some_and(|text| text.contains("wait"))
        && Query::parse(query).integer("wait").is_ok_and(|wait_s| wait_s.is_some_and(|wait_s| wait_s > 0))
}

/// What a method is called. Any word can be one, so those that no route takes share a name.
fn name(method: &Method) -> &'static str {
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
