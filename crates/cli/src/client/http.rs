//! Requests to the service: paths, headers and repetition.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use reqwest::{Client, Method, StatusCode, Url};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::connection::{RequestFailure, client};
use super::error::Error;
use super::flags::{OTHER_PROJECT, Settings};
use super::response::{RESPONSE_BYTES_MAX, Response};
use crate::exit::print_message;

/// Longer than the service takes to respond, unless a request waits for messages.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const JSON: &str = "application/json";
const QUEUE: &str = "queue";
const TOPIC: &str = "topic";
const CLIENT_ID: HeaderName = HeaderName::from_static("client-id");
const PROJECT_ID: HeaderName = HeaderName::from_static("x-project-id");
/// Names the project if nothing else does.
const TENANT: HeaderName = HeaderName::from_static("x-tenant");
/// Start of the warning about the header in which commands send a role.
const ROLES_IGNORED: &str = "X-Roles is ignored";
const DEFAULT_PROJECT: &str = "demo";
/// Characters that need no encoding in a path or query.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The service that the settings name.
pub(super) struct Service {
    client: Client,
    /// The URL without a slash at the end.
    url: String,
    headers: HeaderMap,
    /// The project that somebody has chosen.
    project: Option<String>,
    /// Whether the credentials may be for another project than the one that was chosen.
    may_differ: bool,
    retry: Duration,
    /// The word for one of the queues that requests are for.
    noun: &'static str,
    /// Whether any response has arrived. Before that, a refused connection is a wrong URL or a
    /// service that does not run, and is reported at once.
    has_responded: Cell<bool>,
    /// The warnings that have been printed, each once.
    has_warned: RefCell<HashSet<String>>,
}

impl Service {
    pub(super) fn new(settings: &Settings) -> Result<Self, Error> {
        let text = settings.url.trim_end_matches('/');
        let text = text.strip_suffix("/v2").unwrap_or(text);
        let url = parse_url(text)?;
        let mut headers = HeaderMap::new();
        let credentials = settings.credentials.headers();
        let (named_in, project) = match &settings.project {
            Some(project) => (PROJECT_ID, project.as_str()),
            None if credentials.is_empty() => (PROJECT_ID, DEFAULT_PROJECT),
            None => (TENANT, DEFAULT_PROJECT),
        };
        for (name, value) in [(CLIENT_ID, &*settings.client_id), (named_in, project)] {
            let unsendable = |_| Error::Usage(format!("{value:?} cannot be sent as the header {name}"));
            headers.insert(&name, HeaderValue::from_bytes(value.as_bytes()).map_err(unsendable)?);
        }
        headers.insert(ACCEPT, HeaderValue::from_static(JSON));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("sukkal/", env!("CARGO_PKG_VERSION"))));
        headers.extend(credentials.clone());
        if headers.contains_key(PROJECT_ID) {
            headers.remove(TENANT);
        }
        Ok(Self {
            client: client(&url, settings.cacert.as_deref(), settings.cert.as_deref())?,
            url: url.as_str().trim_end_matches('/').to_owned(),
            headers,
            project: settings.project.clone(),
            may_differ: settings.project.is_some() && !credentials.is_empty(),
            retry: settings.retry,
            noun: QUEUE,
            has_responded: Cell::new(false),
            has_warned: RefCell::default(),
        })
    }

    /// Fails if the credentials are for another project than the one that was chosen. The service
    /// would use theirs.
    pub(super) async fn check_project(&self) -> Result<(), Error> {
        if !self.may_differ {
            return Ok(());
        }
        let request = self.request(Method::GET, "/v2/ping");
        match request.send_once().await {
            Ok(response) if response.warns("X-Project-ID is ignored") => Err(Error::Usage(OTHER_PROJECT.to_owned())),
            // Any other failure is that of the command's own request, too.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns the service with requests in this role, unless the credentials name the roles.
    pub(super) fn in_role(mut self, role: &'static str) -> Self {
        self.headers.entry("x-roles").or_insert(HeaderValue::from_static(role));
        self
    }

    /// Returns the service with requests for topics: the path of a queue means the topic of this
    /// name.
    pub(super) fn of_topics(mut self) -> Self {
        self.noun = TOPIC;
        self
    }

    /// Whether requests are for topics.
    pub(super) fn is_of_topics(&self) -> bool {
        self.noun == TOPIC
    }

    /// The word for one of the queues that requests are for: `queue` or `topic`.
    pub(super) fn noun(&self) -> &'static str {
        self.noun
    }

    /// The key of the queues in a list of them.
    pub(super) fn plural(&self) -> &'static str {
        if self.is_of_topics() { "topics" } else { "queues" }
    }

    /// The project that somebody has chosen. Without one, the credentials or a default choose it.
    pub(super) fn chosen_project(&self) -> Option<&str> {
        self.project.as_deref()
    }

    /// Whether requests are made with a pre-signed URL, which does not allow to see who holds a
    /// message.
    pub(super) fn is_signed(&self) -> bool {
        self.headers.contains_key("url-signature")
    }

    /// The URL of the service, for messages.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Prepares a request. `path` begins with `/v2/`.
    pub(super) fn request(&self, method: Method, path: &str) -> Request<'_> {
        // Repeating one of these requests has the same effect as sending it once.
        let is_repeatable = matches!(method, Method::GET | Method::PUT | Method::DELETE);
        let path = match path.strip_prefix("/v2/queues") {
            Some(rest) => format!("/v2/{}{rest}", self.plural()),
            None => path.to_owned(),
        };
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Request { service: self, method, path, headers, body, is_repeatable, retry: self.retry, wait: Duration::ZERO }
    }

    /// Gets a document.
    pub(super) async fn get(&self, path: &str) -> Result<Value, Error> {
        self.request(Method::GET, path).send().await?.json()
    }

    /// Gets a document to compare with. Returns null if the caller cannot get it.
    pub(super) async fn find(&self, path: &str) -> Value {
        let response = self.request(Method::GET, path).once().send().await;
        response.and_then(|response| response.json()).unwrap_or_default()
    }

    /// Fails if there is nothing at this path. Services report the deletion of nothing as a
    /// success.
    pub(super) async fn must_exist(&self, path: &str) -> Result<(), Error> {
        match self.request(Method::GET, path).once().send().await {
            Err(error @ Error::NotFound(_)) => Err(error),
            // Whether the deletion is possible is up to its own request. A caller may be allowed to
            // delete a message, but not to read it.
            _ => Ok(()),
        }
    }

    /// Prints the service's warning if the queue does not exist. A queue that does not exist looks
    /// like an empty one otherwise.
    pub(super) async fn warn_if_missing(&self, queue: &str) {
        if !self.is_signed() {
            // A caller may be allowed to read the messages of a queue, but not its metadata.
            let _refused = self.request(Method::GET, &queue_path(queue, "")).once().send().await;
        }
    }

    /// Deletes what is at this path. Fails if there is nothing.
    pub(super) async fn delete(&self, path: &str) -> Result<Response, Error> {
        self.must_exist(path).await?;
        self.request(Method::DELETE, path).send().await
    }

    /// The error for a request without a complete response.
    pub(super) fn lost(&self, failure: &RequestFailure) -> Error {
        let url = &self.url;
        match failure {
            RequestFailure::Connect(cause) => Error::Unavailable(format!("cannot connect to {url}: {cause}")),
            RequestFailure::Lost(cause) => Error::Unavailable(format!("the connection to {url} was lost: {cause}")),
            RequestFailure::Timeout => Error::Unavailable(format!("{url} does not respond in time")),
            RequestFailure::TooLong => {
                Error::Failed(format!("a response of {url} is longer than {RESPONSE_BYTES_MAX} bytes"))
            }
        }
    }
}

/// Checks a URL that will be used later.
pub(super) fn check_url(text: &str) -> Result<(), Error> {
    parse_url(text).map(drop)
}

fn parse_url(text: &str) -> Result<Url, Error> {
    // The text is not shown, because it may contain a password.
    if text.contains('@') {
        return Err(Error::Usage("the URL contains a name or a password; use --credentials-file instead".to_owned()));
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    url.filter(|url| url.query().is_none() && url.fragment().is_none())
        .ok_or_else(|| Error::Usage(format!("the URL is {text:?}; it must be such as \"http://127.0.0.1:8888\"")))
}

/// A request that is repeated if that is safe and the service is unavailable.
pub(super) struct Request<'s> {
    service: &'s Service,
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    is_repeatable: bool,
    retry: Duration,
    wait: Duration,
}

impl Request<'_> {
    /// Sends this document.
    pub(super) fn json(self, document: &Value) -> Self {
        self.body(document.to_string().into(), JSON)
    }

    pub(super) fn body(mut self, body: Bytes, media_type: &'static str) -> Self {
        self.body = body;
        self.header(CONTENT_TYPE, HeaderValue::from_static(media_type))
    }

    /// Sets a header, also one that every request has.
    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Repeating the request has no further effect.
    pub(super) fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// The request is not repeated after it was sent.
    pub(super) fn once(mut self) -> Self {
        self.is_repeatable = false;
        self
    }

    /// The service may wait this long before it responds.
    pub(super) fn waits(mut self, seconds: u64) -> Self {
        self.wait = Duration::from_secs(seconds);
        self
    }

    /// The request is repeated for this time instead of the one that the user has chosen.
    pub(super) fn repeated_for(mut self, retry: Duration) -> Self {
        self.retry = retry;
        self
    }

    /// Returns the response if it is a success.
    pub(super) async fn send(self) -> Result<Response, Error> {
        let attempt = async || {
            let response = self.send_once().await?;
            Ok(if response.status.is_success() { Ok(response) } else { Err(response) })
        };
        let response = self.repeat(attempt).await?;
        // The commands for operators send the role to services that verify no credentials, too.
        for warning in response.warnings().filter(|warning| !warning.starts_with(ROLES_IGNORED)) {
            if self.service.has_warned.borrow_mut().insert(warning.clone()) {
                print_message(&format!("warning: {warning}"));
            }
        }
        Ok(response)
    }

    /// Returns the response without its body, which may be endless, if it is a success.
    pub(super) async fn open(self) -> Result<reqwest::Response, Error> {
        self.repeat(async || self.open_once().await).await
    }

    /// Repeats an attempt, which returns a success or a refusal, as long as that is safe and the
    /// service is unavailable.
    async fn repeat<R>(
        &self,
        attempt: impl AsyncFn() -> Result<Result<R, Response>, RequestFailure>,
    ) -> Result<R, Error> {
        let service = self.service;
        let start = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let (error, may_repeat, retry_after) = match attempt().await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(response)) => {
                    let may_repeat = self.is_repeatable && response.is_unavailable();
                    (self.refusal(&response), may_repeat, response.retry_after())
                }
                // Nothing was sent.
                Err(failure @ RequestFailure::Connect(_)) => {
                    (service.lost(&failure), service.has_responded.get(), Duration::ZERO)
                }
                Err(failure) if self.is_repeatable => {
                    (service.lost(&failure), !matches!(failure, RequestFailure::TooLong), Duration::ZERO)
                }
                Err(failure) => {
                    let unknown = |text: &str| format!("{text}; it is unknown whether the request had an effect");
                    (service.lost(&failure).with_text(unknown), false, Duration::ZERO)
                }
            };
            let pause_now = pause.max(retry_after);
            if !may_repeat || start.elapsed().saturating_add(pause_now) > self.retry {
                return Err(error);
            }
            print_message(&format!("{error}; trying again"));
            sleep(pause_now).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn send_once(&self) -> Result<Response, RequestFailure> {
        let exchange = async { Response::read(self.exchange().await?).await };
        timeout(RESPONSE_TIMEOUT.saturating_add(self.wait), exchange).await.unwrap_or(Err(RequestFailure::Timeout))
    }

    async fn open_once(&self) -> Result<Result<reqwest::Response, Response>, RequestFailure> {
        let exchange = async {
            let response = self.exchange().await?;
            Ok(if response.status() == StatusCode::OK { Ok(response) } else { Err(Response::read(response).await?) })
        };
        timeout(RESPONSE_TIMEOUT, exchange).await.unwrap_or(Err(RequestFailure::Timeout))
    }

    async fn exchange(&self) -> Result<reqwest::Response, RequestFailure> {
        let service = self.service;
        let request = service.client.request(self.method.clone(), format!("{}{}", service.url, self.path));
        let request = request.headers(service.headers.clone()).headers(self.headers.clone());
        let response = request.body(self.body.clone()).send().await?;
        service.has_responded.set(true);
        Ok(response)
    }

    fn refusal(&self, response: &Response) -> Error {
        response.refusal(&self.service.url, &self.method, &self.path)
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
    let encoded = parameters.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", encode(&value?))));
    let pairs: Vec<_> = encoded.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}
