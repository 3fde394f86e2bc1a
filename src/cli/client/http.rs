//! Requests to the service: headers, repetition, and what a response that is not a success means.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Method, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::error::Error;
use super::flags::Settings;
use super::output::printable;
use crate::cli::exit::print_message;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the service takes to respond, unless a request waits for messages.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Maximum number of characters shown of a response that is not an error document.
const SHOWN_CHARS_MAX: usize = 200;
/// The title of the error for a path that does not exist. For an item that does not exist, it is
/// `Not found`.
const NO_PATH: &str = "404 Not Found";
const JSON: &str = "application/json";
const WARNING: &str = "sukkal-warning";
/// Characters that need no encoding in a path or query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The service that the settings name.
pub(super) struct Service {
    http: Client,
    /// The URL without a slash at the end.
    base: String,
    headers: HeaderMap,
    retry: Duration,
    /// Whether any response has arrived. Before that, a refused connection is a wrong URL or a
    /// service that does not run, and is reported at once.
    has_answered: Cell<bool>,
}

impl Service {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let url = parse_url(&settings.url)?;
        let base = url.as_str().trim_end_matches('/').trim_end_matches("/v2").to_owned();
        let mut headers = HeaderMap::new();
        for (name, value) in [("client-id", &settings.client_id), ("x-project-id", &settings.project)] {
            let value = HeaderValue::from_bytes(value.as_bytes())
                .map_err(|_| Error::Usage(format!("{value:?} cannot be sent as the header {name}")))?;
            headers.insert(HeaderName::from_static(name), value);
        }
        headers.insert(ACCEPT, HeaderValue::from_static(JSON));
        headers.extend(settings.credentials.headers().clone());
        let http =
            client(&url).map_err(|error| Error::Failed(format!("cannot set up the client: {}", cause(&error))))?;
        Ok(Self { http, base, headers, retry: settings.retry, has_answered: Cell::new(false) })
    }

    /// Returns the service with requests in this role, unless the credentials name the roles.
    pub(super) fn in_role(mut self, role: &'static str) -> Self {
        self.headers.entry("x-roles").or_insert(HeaderValue::from_static(role));
        self
    }

    /// Whether requests are made with a pre-signed URL, which does not allow to see who holds a
    /// message.
    pub(super) fn is_signed(&self) -> bool {
        self.headers.contains_key("url-signature")
    }

    /// The URL of the service, for messages.
    pub(super) fn url(&self) -> &str {
        &self.base
    }

    /// Prepares a request. `path` begins with `/v2/`.
    pub(super) fn request(&self, method: Method, path: &str) -> Request<'_> {
        // Repeating one of these requests has the same effect as sending it once.
        let is_repeatable = matches!(method, Method::GET | Method::PUT | Method::DELETE);
        let path = path.to_owned();
        Request {
            service: self,
            method,
            path,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            is_repeatable,
            wait: Duration::ZERO,
        }
    }

    /// Gets a document.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Error> {
        self.request(Method::GET, path).send().await?.json()
    }

    /// Sends a request for an endless response, once.
    pub(super) async fn open(&self, path: &str, headers: HeaderMap) -> Result<reqwest::Response, Error> {
        let mut all = self.headers.clone();
        for (name, value) in &headers {
            all.insert(name, value.clone());
        }
        let request = self.http.get(format!("{}{path}", self.base)).headers(all);
        let response = request.send().await.map_err(|error| self.lost(&error))?;
        self.has_answered.set(true);
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        let response = Response::read(response).await.map_err(|error| self.lost(&error))?;
        Err(self.refusal(&response, "GET", path))
    }

    /// The error for a request without a response.
    pub(super) fn lost(&self, error: &reqwest::Error) -> Error {
        let (url, cause) = (&self.base, cause(error));
        Error::Unavailable(match () {
            () if error.is_timeout() && !error.is_connect() => format!("{url} does not respond in time"),
            () if error.is_connect() => format!("cannot connect to {url}: {cause}"),
            () => format!("the connection to {url} was lost: {cause}"),
        })
    }

    /// The error for a response that is not a success.
    fn refusal(&self, response: &Response, method: &str, path: &str) -> Error {
        let status = response.status;
        let document: Value = serde_json::from_slice(&response.body).unwrap_or_default();
        let part = |name: &str| document[name].as_str().map(printable).filter(|text| !text.is_empty());
        let (title, description) = (part("title"), part("description"));
        let text = description.or_else(|| title.clone()).unwrap_or_else(|| {
            let body: String = String::from_utf8_lossy(&response.body).chars().take(SHOWN_CHARS_MAX).collect();
            printable(if body.is_empty() { status.canonical_reason().unwrap_or_default() } else { body.trim() })
        });
        let code = status.as_u16();
        if is_unavailable(status) {
            return Error::Unavailable(format!("the service is unavailable ({code}): {text}"));
        }
        match code {
            404 if title.as_deref() != Some(NO_PATH) => Error::NotFound(text),
            404 | 405 => {
                let path = path.split_once('?').map_or(path, |(path, _)| path);
                Error::Refused {
                    status: code,
                    text: format!("{} does not support {method} {path} ({code})", self.base),
                }
            }
            401 | 403 => Error::Refused { status: code, text: format!("not allowed ({code}): {text}") },
            400..=499 => Error::Refused { status: code, text: format!("{text} ({code})") },
            300..=399 => {
                let to =
                    response.header(LOCATION.as_str()).map(|to| format!(" to {}", printable(to))).unwrap_or_default();
                Error::Failed(format!("{} redirects{to} ({code}); use the URL of the service itself", self.base))
            }
            _ => Error::Failed(format!("the service has failed ({code}): {text}")),
        }
    }
}

/// Whether the service may accept the same request later. Proxies send 502 and 504 while the
/// service restarts.
fn is_unavailable(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 502 | 503 | 504)
}

/// Checks a URL that will be used later.
pub(super) fn check_url(text: &str) -> Result<(), Error> {
    parse_url(text).map(drop)
}

fn parse_url(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(|url| url.has_host() && url.query().is_none() && url.fragment().is_none());
    // The text is not shown if it may contain a password.
    let shown = if text.contains('@') { String::new() } else { format!(" {text:?}") };
    let url = url.ok_or_else(|| {
        Error::Usage(format!("the URL{shown} is not usable; it must be such as \"http://127.0.0.1:8888\""))
    })?;
    if url.username().is_empty() && url.password().is_none() {
        Ok(url)
    } else {
        Err(Error::Usage("the URL contains a name or a password; use --credentials-file instead".to_owned()))
    }
}

fn client(url: &Url) -> reqwest::Result<Client> {
    // Fails only if a provider is installed already.
    let _installed = rustls::crypto::ring::default_provider().install_default();
    let client = Client::builder()
        .user_agent(concat!("sukkal/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // Credentials are for this service only.
        .redirect(Policy::none());
    // Reading the certificates of the system takes longer than a request.
    let client = if url.scheme() == "http" { client.tls_certs_only(Vec::<Certificate>::new()) } else { client };
    let is_local = match url.host_str() {
        Some(host) => {
            host == "localhost"
                || host.trim_matches(['[', ']']).parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
        None => false,
    };
    // A proxy cannot reach the services of this machine.
    if is_local { client.no_proxy() } else { client }.build()
}

/// The innermost cause, because the outer ones repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// A request that is repeated if that is safe and the service is unavailable.
pub(super) struct Request<'s> {
    service: &'s Service,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    is_repeatable: bool,
    wait: Duration,
}

impl Request<'_> {
    /// Sends this document.
    pub(super) fn json(self, document: &Value) -> Self {
        self.body(document.to_string().into(), JSON)
    }

    pub(super) fn body(mut self, body: Bytes, media_type: &'static str) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        self.body = body;
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: HeaderValue) -> Self {
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }

    /// Repeating the request has no further effect.
    pub(super) fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// The service may wait this long before it answers.
    pub(super) fn waits(mut self, seconds: u64) -> Self {
        self.wait = Duration::from_secs(seconds);
        self
    }

    /// Returns the response if it is a success.
    pub(super) async fn send(self) -> Result<Response, Error> {
        let deadline = Instant::now() + self.service.retry;
        let mut pause = FIRST_PAUSE;
        loop {
            let (error, may_repeat, retry_after) = match self.send_once().await {
                Ok(response) if response.status.is_success() => {
                    for warning in response.headers.get_all(WARNING) {
                        print_message(&format!("warning: {}", printable(&String::from_utf8_lossy(warning.as_bytes()))));
                    }
                    return Ok(response);
                }
                Ok(response) => {
                    let may_repeat = self.is_repeatable && is_unavailable(response.status);
                    let error = self.service.refusal(&response, self.method.as_str(), &self.path);
                    (error, may_repeat, response.retry_after())
                }
                // Nothing was sent.
                Err(error) if error.is_connect() => {
                    (self.service.lost(&error), self.service.has_answered.get(), Duration::ZERO)
                }
                Err(error) if self.is_repeatable => (self.service.lost(&error), true, Duration::ZERO),
                Err(error) => {
                    let unknown = |text: &str| format!("{text}; it is unknown whether the request had an effect");
                    (self.service.lost(&error).with_text(unknown), false, Duration::ZERO)
                }
            };
            let next = Instant::now() + pause.max(retry_after);
            if !may_repeat || next > deadline {
                return Err(error);
            }
            print_message(&format!("{error}; trying again"));
            sleep(next - Instant::now()).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn send_once(&self) -> reqwest::Result<Response> {
        let Self { service, method, path, headers, body, wait, .. } = self;
        let request = service
            .http
            .request(method.clone(), format!("{}{path}", service.base))
            .headers(service.headers.clone())
            .headers(headers.clone())
            .body(body.clone())
            .timeout(RESPONSE_TIMEOUT + *wait);
        let response = request.send().await?;
        service.has_answered.set(true);
        Response::read(response).await
    }
}

/// A complete response.
pub(super) struct Response {
    pub(super) status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Response {
    async fn read(response: reqwest::Response) -> reqwest::Result<Self> {
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Self { status, headers, body: response.bytes().await? })
    }

    pub(super) fn json(&self) -> Result<Value, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::Failed(format!("the response is not JSON: {error}; is the URL that of the service?"))
        })
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    fn retry_after(&self) -> Duration {
        let seconds = self.header(RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or_default())
    }
}

/// Returns the path of a queue, followed by `rest`, which is a path or query.
pub(super) fn queue_path(queue: &str, rest: &str) -> String {
    format!("/v2/queues/{}{rest}", encode(queue))
}

/// Encodes a segment of a path, or a value of a query.
pub(super) fn encode(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

/// Returns `?name=value&…` with the parameters that have a value.
pub(super) fn query<'a>(parameters: impl IntoIterator<Item = (&'a str, Option<String>)>) -> String {
    let pairs: Vec<_> =
        parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encode(&value?)))).collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}
