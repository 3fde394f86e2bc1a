//! The service under test: where it is, and what every request to it carries.

use std::fmt::{self, Display};
use std::io;
use std::net::SocketAddr;
use std::str::FromStr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::http::{Error as HttpError, uri::Scheme};
use hyper::{Method, Request, Uri};
use tokio::net::{TcpStream, lookup_host};
use uuid::Uuid;

const HTTP_PORT: u16 = 80;
const CLIENT_ID: HeaderName = HeaderName::from_static("client-id");
const PROJECT_ID: HeaderName = HeaderName::from_static("x-project-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A request with all its body, cheap to clone.
pub(super) type Outgoing = Request<Full<Bytes>>;

/// An `http://` URL, to which the API's paths are appended.
#[derive(Clone, Debug)]
pub(super) struct Target {
    url: String,
    host: String,
    port: u16,
    /// As it stands in the URL.
    authority: String,
    path: String,
}

impl Target {
    /// The first of the host's addresses that takes a connection.
    pub(super) async fn find(&self) -> io::Result<SocketAddr> {
        let mut error = io::Error::from(io::ErrorKind::NotFound);
        for address in lookup_host((self.host.as_str(), self.port)).await? {
            match TcpStream::connect(address).await {
                Ok(_) => return Ok(address),
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
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err("only http:// is measured".to_owned());
        }
        let authority = uri.authority().ok_or("it names no host")?;
        if uri.query().is_some() || authority.as_str().contains('@') {
            return Err("only a host, a port and a path are expected".to_owned());
        }
        Ok(Self {
            url: url.trim_end_matches('/').to_owned(),
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(HTTP_PORT),
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

/// One client of the service.
#[derive(Clone, Debug)]
pub(super) struct Client {
    target: Target,
    id: Uuid,
    project: String,
}

impl Client {
    /// A client with an id of its own.
    pub(super) fn new(target: &Target, project: &str) -> Self {
        Self { target: target.clone(), id: Uuid::new_v4(), project: project.to_owned() }
    }

    /// A path of the API (from `/v2`) as the service's URL has it.
    pub(super) fn path(&self, path: &str) -> String {
        format!("{}{path}", self.target.path)
    }

    /// A request to a path of the API.
    ///
    /// An error means that path or project cannot be sent as they are.
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
    fn a_url_may_have_a_path_and_need_no_port() {
        let plain = target("http://[::1]:8888/");
        let behind_a_proxy = target("http://queues.example/messaging/");

        assert_eq!((plain.host.as_str(), plain.port, plain.path.as_str()), ("::1", 8888, ""));
        assert_eq!((behind_a_proxy.host.as_str(), behind_a_proxy.port), ("queues.example", 80));
        assert_eq!(behind_a_proxy.path, "/messaging");
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for url in ["https://h", "h:80", "/v2", "http://u:p@h", "http://h/?q=1", ""] {
            assert!(url.parse::<Target>().is_err(), "{url:?}");
        }
    }

    #[test]
    fn a_request_carries_what_the_api_asks_for() {
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
