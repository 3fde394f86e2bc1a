//! The console (`/console`) and the reference of the API (`/docs`). They need no caller, because
//! the scripts of the console sign in to the API like any client.

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION};
use axum::http::header::{REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};

use super::middleware::outage::Outage::StoreState;
use super::middleware::request_checks::Requirement;
use super::route::{Route, open_route};
use crate::console::{self, tag};
use crate::wire::Error;

/// Scripts and styles only from this service, and no frames. Texts never become markup.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";
const HTML: &str = "text/html; charset=utf-8";

/// Returns the routes of the console.
pub(super) fn routes() -> Vec<Route> {
    let open = |path| open_route(path, Requirement::Nothing);
    vec![
        open("/console").on(Method::GET, StoreState, page),
        open("/console/")
            .on(Method::GET, StoreState, async || (StatusCode::PERMANENT_REDIRECT, [(LOCATION, "../console")])),
        open("/console/{file}").on(Method::GET, StoreState, file),
        open("/docs").on(Method::GET, StoreState, reference),
    ]
}

async fn page(headers: HeaderMap) -> Response {
    document(&headers, HTML, console::page(), &tag(console::page()))
}

async fn reference(headers: HeaderMap) -> Response {
    document(&headers, HTML, console::reference(), &tag(console::reference()))
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Error> {
    let asset = console::asset(&name).ok_or(Error::NoRoute(String::new()))?;
    Ok(document(&headers, asset.media_type, &asset.text, &asset.tag))
}

/// Returns a document. A browser keeps it, and asks each time whether it has changed.
fn document(request: &HeaderMap, media_type: &'static str, text: &'static str, tag: &str) -> Response {
    let headers = [
        (CONTENT_TYPE, media_type),
        (ETAG, tag),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    let known = request.get(IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    if known.is_some_and(|tags| tags.contains(tag)) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, text).into_response()
}
