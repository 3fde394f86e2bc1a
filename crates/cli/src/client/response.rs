//! A response of the service, and what it means if it is not a success.

use std::mem;
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderValue, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use reqwest::{Method, StatusCode};
use serde_json::Value;

use super::connection::RequestFailure;
use super::error::Error;
use super::output::printable;
use sukkal_base::outbound::body_of;

/// Maximum length of a response in bytes. A page of 20 messages of 4 MiB each, which is the largest
/// that services can be configured to accept, is shorter.
pub(super) const RESPONSE_BYTES_MAX: usize = 128 << 20;
/// Maximum number of characters shown of a response that is not an error document.
const SHOWN_CHARS_MAX: usize = 200;
/// The title of the error for a path that does not exist. For an item that does not exist, it is
/// `Not found`.
const NO_PATH: &str = "404 Not Found";
/// The start of a challenge that names the URL of Keystone.
const KEYSTONE_CHALLENGE: &str = "Keystone uri=\"";
const WARNING: &str = "sukkal-warning";

/// A complete response.
pub(super) struct Response {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Response {
    /// Reads the body of a response.
    pub(super) async fn read(mut response: reqwest::Response) -> Result<Self, RequestFailure> {
        let (status, headers) = (response.status(), mem::take(response.headers_mut()));
        let body = body_of(response, RESPONSE_BYTES_MAX).await?.ok_or(RequestFailure::TooLong)?;
        Ok(Self { status, headers, body })
    }

    pub(super) fn json(&self) -> Result<Value, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::Failed(format!("the response is not JSON: {error}; is the URL that of the service?"))
        })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether the service may accept the same request later. Proxies send 502 and 504 while the
    /// service restarts.
    pub(super) fn is_unavailable(&self) -> bool {
        matches!(self.status.as_u16(), 429 | 502 | 503 | 504)
    }

    /// How long to wait before the request is repeated, if the service says so.
    pub(super) fn retry_after(&self) -> Duration {
        let seconds = self.header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or_default())
    }

    /// Whether a warning begins with this text.
    pub(super) fn warns(&self, beginning: &str) -> bool {
        let is_about_it = |warning: &HeaderValue| warning.as_bytes().starts_with(beginning.as_bytes());
        self.headers.get_all(WARNING).iter().any(is_about_it)
    }

    /// Returns the texts that say which parts of the request have no effect.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let texts = self.headers.get_all(WARNING).into_iter();
        texts.map(|warning| printable(&String::from_utf8_lossy(warning.as_bytes())))
    }

    /// The error for a response that is not a success. `url` is that of the service.
    pub(super) fn refusal(&self, url: &str, method: &Method, path: &str) -> Error {
        let document: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let part = |name: &str| document[name].as_str().map(printable).filter(|text| !text.is_empty());
        let title = part("title");
        let text = part("description").or_else(|| title.clone()).unwrap_or_else(|| self.start_of_body());
        let code = self.status.as_u16();
        if let (401, Some(keystone)) = (code, self.keystone()) {
            let text = format!(
                "not allowed (401): the service wants a valid token of Keystone at {keystone}; get one with \
                 `openstack token issue -f value -c id`, and send it as X-Auth-Token in a --credentials-file"
            );
            return Error::Refused { status: code, text };
        }
        match code {
            _ if self.is_unavailable() => Error::Unavailable(format!("the service is unavailable ({code}): {text}")),
            404 if title.as_deref() != Some(NO_PATH) => Error::NotFound(text),
            404 | 405 => {
                let path = path.split_once('?').map_or(path, |(path, _)| path);
                let hint = if title.as_deref() == Some(NO_PATH) { format!(": {text}") } else { String::new() };
                Error::Refused { status: code, text: format!("{url} does not support {method} {path} ({code}){hint}") }
            }
            401 | 403 => Error::Refused { status: code, text: format!("not allowed ({code}): {text}") },
            400..=499 => Error::Refused { status: code, text: format!("{text} ({code})") },
            300..=399 => {
                let to = self.header(LOCATION.as_str()).map(|to| format!(" to {}", printable(to))).unwrap_or_default();
                Error::Failed(format!("{url} redirects{to} ({code}); use the URL of the service itself"))
            }
            _ => Error::Failed(format!("the service has failed ({code}): {text}")),
        }
    }

    /// Returns the URL of the Keystone whose tokens the service accepts, if a response names it.
    fn keystone(&self) -> Option<String> {
        let challenges = self.headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let urls = challenges.filter_map(|challenge| challenge.strip_prefix(KEYSTONE_CHALLENGE)?.split('"').next());
        urls.map(printable).next()
    }

    fn start_of_body(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(SHOWN_CHARS_MAX).collect();
        let body = printable(body.trim());
        if body.is_empty() { self.status.canonical_reason().unwrap_or_default().to_owned() } else { body }
    }
}
