//! The service under test: its URL, and the headers that every request to it has.

use std::fmt::{self, Display};
use std::io;
use std::str::FromStr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::{Error as HttpError, uri::Scheme};
use hyper::{Method, Request, Uri};
use tokio::net::lookup_host;
use uuid::Uuid;

use super::server::{Server, Tls};

const HTTP_PORT: u16 = 80;
const HTTPS_PORT: u16 = 443;
const CLIENT_ID: HeaderName = HeaderName::from_static("client-id");
const PROJECT_ID: HeaderName = HeaderName::from_static("x-project-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request with its complete body. Cloning it is cheap.
pub(super) type Outgoing = Request<Full<Bytes>>;

/// An `http://` or `https://` URL, to which the paths of the API are appended.
#[derive(Clone, Debug)]
pub(super) struct Target {
    url: String,
    host: String,
    port: u16,
    is_https: bool,
    /// Host and port as in the URL.
    authority: String,
    path: String,
}

impl Target {
    /// Returns the server at the first of the host's addresses that accepts a connection.
    pub(super) async fn resolve(&self) -> io::Result<Server> {
        let tls = if self.is_https { Some(Tls::new(&self.host)?) } else { None };
        let mut error = io::Error::from(io::ErrorKind::NotFound);
        for address in lookup_host((self.host.as_str(), self.port)).await? {
            let server = Server::new(address, tls.clone());
            match server.connect().await {
                Ok(_) => return Ok(server),
                Err(refused) => error = refused,
            }
        }
        Err(error)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(url: &str) -> Result<Self, String> {
        let uri: Uri = url.parse().map_err(|error| format!("{error}"))?;
        let is_https = uri.scheme() == Some(&Scheme::HTTPS);
        if !is_https && uri.scheme() != Some(&Scheme::HTTP) {
            return Err("the URL must begin with http:// or https://".to_owned());
        }
        let authority = uri.authority().ok_or("the URL has no host")?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err("the URL may have a host, a port and a path, but no user and no query".to_owned());
        }
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(if is_https { HTTPS_PORT } else { HTTP_PORT }),
            is_https,
            authority: authority.to_string(),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url)
    }
}

/// A client of the service.
#[derive(Clone, Debug)]
pub(super) struct Client {
    target: Target,
    id: Uuid,
    project: String,
}

impl Client {
    /// Creates a client with a new client id.
    pub(super) fn new(target: &Target, project: &str) -> Self {
        Self { target: target.clone(), id: Uuid::new_v4(), project: project.to_owned() }
    }

    /// Returns a path of the API, which begins with `/v2`, below the path of the service's URL.
    pub(super) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.target.path)
    }

    /// Builds a request to a path of the API.
    ///
    /// Fails if the path or the project contains characters that HTTP does not allow.
    pub(super) fn request(&self, method: Method, path: &str, body: Option<Bytes>) -> Result<Outgoing, HttpError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.path(path))
            .header(HOST, &self.target.authority)
            .header(CLIENT_ID, self.id.to_string())
            .header(PROJECT_ID, &self.project)
            .header(ACCEPT, JSON);
        if body.is_some() {
            request = request.header(CONTENT_TYPE, JSON);
        }
        request.body(Full::new(body.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(url: &str) -> Target {
        url.parse().unwrap()
    }

    #[test]
    fn a_url_may_have_a_path_and_needs_no_port() {
        let plain = target("http://[::1]:8888/");
        let behind_a_proxy = target("http://queues.example/messaging/");

        assert_eq!((plain.host.as_str(), plain.port, plain.path.as_str()), ("::1", 8888, ""));
        assert_eq!((behind_a_proxy.host.as_str(), behind_a_proxy.port), ("queues.example", 80));
        assert_eq!(behind_a_proxy.path, "/messaging");
        assert_eq!(target("https://queues.example").port, 443);
    }

    #[test]
    fn urls_that_cannot_be_measured_are_refused() {
        for url in ["ftp://h", "h:80", "/v2", "http://u:p@h", "http://h/?q=1", ""] {
            assert!(url.parse::<Target>().is_err(), "{url:?}");
        }
    }

    #[test]
    fn a_request_has_the_headers_that_the_api_requires() {
        let client = Client::new(&target("http://h:1/base"), "p");

        let post = client.request(Method::POST, "/v2/queues/q/messages", Some(Bytes::from("{}"))).unwrap();

        assert_eq!(post.uri(), "/base/v2/queues/q/messages");
        for (header, value) in [("host", "h:1"), ("x-project-id", "p"), ("content-type", "application/json")] {
            assert_eq!(post.headers()[header], value);
        }
        assert!(Uuid::parse_str(post.headers()["client-id"].to_str().unwrap()).is_ok());
        assert!(client.request(Method::GET, "/v2/queues/a b", None).is_err());
    }
}
