//! A path and its methods: what is not among them is answered with `405`, `OPTIONS` with `Allow`.

use axum::http::header::ALLOW;
use axum::routing::MethodRouter;

use super::Service;
use crate::api::Error;

/// A path of the API.
pub(super) struct Resource {
    pub(super) path: &'static str,
    pub(super) allow: &'static str,
    pub(super) methods: MethodRouter<Service>,
}

/// A path that takes the methods of `allow`, for each of which `methods` has a handler.
pub(super) fn resource(path: &'static str, allow: &'static str, methods: MethodRouter<Service>) -> Resource {
    let methods = methods
        .options(move || async move { [(ALLOW, allow)] })
        .fallback(move || async move { Error::Method { allow } });
    Resource { path, allow, methods }
}
