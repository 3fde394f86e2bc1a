//! The answer to a path that no route has, with a hint.

use axum::extract::State;
use axum::http::Uri;

use super::service::{Service, Settings};
use crate::wire::Error;
use sukkal_domain::warning::nearest;

/// What follows `/v2/` in the paths of the API.
const RESOURCES: [&str; 12] = [
    "queues",
    "topics",
    "ping",
    "health",
    "usage",
    "quotas",
    "projects",
    "backup",
    "tokens",
    "pools",
    "flavors",
    "websocket",
];

pub(super) async fn no_route(State(Service { settings, .. }): State<Service>, uri: Uri) -> Error {
    Error::NoRoute(hint(uri.path(), &settings))
}

fn hint(path: &str, settings: &Settings) -> String {
    let mut segments = path.split('/').skip(1);
    let ("v2", Some(resource)) = (segments.next().unwrap_or_default(), segments.next()) else { return String::new() };
    let switched_off = match resource {
        "health" | "quotas" | "projects" | "backup" => (!settings.admin_mode).then_some("admin_mode"),
        "pools" | "flavors" if settings.pooling => (!settings.admin_mode).then_some("admin_mode"),
        "pools" | "flavors" => Some("enabled in [pooling], and admin_mode"),
        "tokens" => (!settings.authenticator.verifies_api_keys()).then_some("tokens among strategies in [auth]"),
        _ => None,
    };
    if let ("topics", Some(_name), Some("claims")) = (resource, segments.next(), segments.next()) {
        return " A topic has no claims; use a queue.".to_owned();
    }
    if let Some(option) = switched_off {
        return format!(" This one exists only if the operator has set {option}.");
    }
    match nearest(resource, RESOURCES) {
        Some(nearest) if nearest != resource => format!(" Did you mean /v2/{nearest}?"),
        _ => String::new(),
    }
}
