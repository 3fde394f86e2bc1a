//! The requests of a run, and what the next request needs from a response.

use std::borrow::Cow;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Uri};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use uuid::Uuid;

use super::connection::{LoadFailure, Outgoing};
use super::options::Options;

/// Longer than most runs, so that no message expires during a run.
const MESSAGE_TTL_S: u32 = 3_600;
/// The claim ends before its messages expire, so that the service need not extend their lifetime.
const CLAIM: &str = r#"{"ttl":300,"grace":60}"#;
/// Maximum size of the messages of a post that services accept by default: 256 KiB minus the rest
/// of the document.
const POST_BYTES_MAX: usize = 250_000;
/// The response names each message in a header, and clients and proxies limit the length of
/// headers.
const POST_MESSAGES_MAX: usize = 100;
const FILLER: &str = "The quick brown fox jumps over the lazy dog. ";
const CLIENT_ID: HeaderName = HeaderName::from_static("client-id");
const PROJECT_ID: HeaderName = HeaderName::from_static("x-project-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Characters that stay as they are in a name, an id, or a marker from a link.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'%');

/// The requests to the queues of a run.
pub(super) struct Requests {
    /// The path of the queues.
    path: String,
    headers: HeaderMap,
    queues: Vec<String>,
    limit: usize,
    message: String,
    /// Number of messages in each post.
    pub(super) batch: usize,
    post: Bytes,
}

impl Requests {
    pub(super) fn new(options: &Options) -> Self {
        let random = || format!("bench-{}", &Uuid::new_v4().simple().to_string()[..8]);
        let prefix = options.queue.clone().unwrap_or_else(random);
        let host = options.url().authority().map(ToString::to_string).unwrap_or_default();
        let body: String = FILLER.chars().cycle().take(options.message_bytes).collect();
        let message = format!(r#"{{"ttl":{MESSAGE_TTL_S},"body":"{body}"}}"#);
        let text = |text: String| HeaderValue::try_from(text).expect("a URL and a UUID are valid in headers");
        Self {
            path: format!("{}/v2/queues", options.url().path().trim_end_matches('/')),
            headers: HeaderMap::from_iter([
                (HOST, text(host)),
                (CLIENT_ID, text(Uuid::new_v4().to_string())),
                (PROJECT_ID, options.project.clone()),
                (ACCEPT, JSON),
            ]),
            queues: (0..options.queues).map(|n| format!("{prefix}-{n}")).collect(),
            limit: options.limit,
            post: messages_document(&message, options.batch),
            batch: options.batch,
            message,
        }
    }

    /// The names of the queues.
    pub(super) fn queues(&self) -> &[String] {
        &self.queues
    }

    /// The name of queue number `n`, modulo the number of queues.
    pub(super) fn queue(&self, n: usize) -> &str {
        &self.queues[n % self.queues.len()]
    }

    pub(super) fn create_queue(&self, queue: &str) -> Result<Outgoing, LoadFailure> {
        self.request(Method::PUT, queue, "", Bytes::new())
    }

    pub(super) fn delete_queue(&self, queue: &str) -> Result<Outgoing, LoadFailure> {
        self.request(Method::DELETE, queue, "", Bytes::new())
    }

    /// Posts a batch of messages.
    pub(super) fn post(&self, queue: &str) -> Result<Outgoing, LoadFailure> {
        self.request(Method::POST, queue, "/messages", self.post.clone())
    }

    /// Posts the given number of messages, distributed evenly over the queues, in as many requests
    /// as necessary.
    pub(super) fn fill(&self, messages: usize) -> impl Iterator<Item = Result<Outgoing, LoadFailure>> {
        let most = (POST_BYTES_MAX / self.message.len()).clamp(1, POST_MESSAGES_MAX);
        let (each, rest) = (messages / self.queues.len(), messages % self.queues.len());
        self.queues.iter().enumerate().flat_map(move |(n, queue)| {
            let messages = each + usize::from(n < rest);
            (0..messages).step_by(most).map(move |posted| {
                let post = messages_document(&self.message, most.min(messages - posted));
                self.request(Method::POST, queue, "/messages", post)
            })
        })
    }

    /// Lists the messages after a marker, or the first ones.
    pub(super) fn page(&self, queue: &str, marker: Option<&str>) -> Result<Outgoing, LoadFailure> {
        let limit = self.limit;
        let marker = marker.map(|marker| format!("&marker={}", encoded(marker))).unwrap_or_default();
        let path = format!("/messages?limit={limit}&echo=true&include_claimed=true{marker}");
        self.request(Method::GET, queue, &path, Bytes::new())
    }

    pub(super) fn claim(&self, queue: &str) -> Result<Outgoing, LoadFailure> {
        self.request(Method::POST, queue, &format!("/claims?limit={}", self.limit), CLAIM.into())
    }

    /// Deletes messages.
    pub(super) fn delete<'a>(&self, queue: &str, ids: impl Iterator<Item = &'a str>) -> Result<Outgoing, LoadFailure> {
        let ids: Vec<_> = ids.map(encoded).collect();
        self.request(Method::DELETE, queue, &format!("/messages?ids={}", ids.join(",")), Bytes::new())
    }

    fn request(&self, method: Method, queue: &str, path: &str, body: Bytes) -> Result<Outgoing, LoadFailure> {
        let uri = format!("{}/{}{path}", self.path, encoded(queue));
        let mut headers = self.headers.clone();
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::try_from(uri).map_err(|_| LoadFailure::TooLong)?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

fn encoded(text: &str) -> Cow<'_, str> {
    utf8_percent_encode(text, PLAIN).into()
}

fn messages_document(message: &str, times: usize) -> Bytes {
    format!(r#"{{"messages":[{}]}}"#, vec![message; times].join(",")).into()
}

/// The messages in a response: a page of a queue's feed, or those that a claim returned.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Messages<'a> {
    #[serde(borrow)]
    messages: Vec<Message<'a>>,
    #[serde(borrow, default)]
    links: Vec<Link<'a>>,
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
}

#[derive(Debug, Deserialize)]
struct Link<'a> {
    #[serde(borrow)]
    rel: Cow<'a, str>,
    #[serde(borrow)]
    href: Cow<'a, str>,
}

impl<'a> Messages<'a> {
    /// Parses a response body, which is empty if there are no messages. Returns `None` if it is
    /// another document.
    pub(super) fn parse(body: &'a [u8]) -> Option<Self> {
        if body.is_empty() { Some(Self::default()) } else { serde_json::from_slice(body).ok() }
    }

    pub(super) fn ids(&self) -> impl ExactSizeIterator<Item = &str> {
        self.messages.iter().map(|message| message.id.as_ref())
    }

    /// The marker of the next page, percent-encoded as in the link.
    pub(super) fn marker(&self) -> Option<&str> {
        let next = self.links.iter().find(|link| link.rel == "next")?;
        let (_, query) = next.href.split_once('?')?;
        query.split('&').find_map(|parameter| parameter.strip_prefix("marker="))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use futures::FutureExt;
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn requests(flags: &[&str]) -> Requests {
        let always = ["bench", "http://h:1/base/", "--queue", "q", "--project", "p"];
        Requests::new(&Command::parse_from([&always, flags].concat()).options)
    }

    /// The sizes of the messages in a post.
    fn bodies(post: Result<Outgoing, LoadFailure>) -> Vec<usize> {
        let body = post.unwrap().into_body().collect().now_or_never().unwrap().unwrap().to_bytes();
        let document: Value = serde_json::from_slice(&body).unwrap();
        let messages = document["messages"].as_array().unwrap();
        messages.iter().map(|message| message["body"].as_str().unwrap().len()).collect()
    }

    #[test]
    fn a_post_has_the_requested_messages_and_the_headers_that_the_api_requires() {
        let post = requests(&["--batch", "3", "--message-bytes", "100"]).post("q-0").unwrap();

        for (header, value) in [("host", "h:1"), ("x-project-id", "p"), ("content-type", "application/json")] {
            assert_eq!(post.headers()[header], value);
        }
        assert!(Uuid::parse_str(post.headers()["client-id"].to_str().unwrap()).is_ok());
        assert_eq!(bodies(Ok(post)), [100, 100, 100]);
    }

    #[test]
    fn fill_splits_the_messages_into_posts_that_services_accept() {
        let sizes = |flags: &[&str], messages| {
            let requests = requests(flags);
            requests
                .fill(messages)
                .map(|post| (post.as_ref().unwrap().uri().to_string(), bodies(post).len()))
                .collect::<Vec<_>>()
        };
        let [q, r] = ["/base/v2/queues/q-0/messages", "/base/v2/queues/q-1/messages"].map(str::to_owned);

        let expected = [(q.clone(), 100), (q.clone(), 26), (r.clone(), 100), (r, 25)];
        assert_eq!(sizes(&["--queues", "2"], 251), expected);
        assert_eq!(sizes(&["--message-bytes", "200000"], 2), [(q.clone(), 1), (q, 1)]);
    }

    #[test]
    fn requests_have_the_paths_of_the_api() {
        let requests = requests(&["--limit", "5"]);
        let uri = |request: Result<Outgoing, LoadFailure>| request.unwrap().uri().to_string();
        let page = "/base/v2/queues/q/messages?limit=5&echo=true&include_claimed=true";

        assert_eq!(uri(requests.page("q", None)), page);
        assert_eq!(uri(requests.page("q", Some("a%20b c"))), format!("{page}&marker=a%20b%20c"));
        assert_eq!(uri(requests.claim("r")), "/base/v2/queues/r/claims?limit=5");
        assert_eq!(uri(requests.delete("r", ["a", "b"].into_iter())), "/base/v2/queues/r/messages?ids=a,b");
        assert_eq!(uri(requests.create_queue("a b/?")), "/base/v2/queues/a%20b%2F%3F");
    }

    #[test]
    fn the_next_request_needs_ids_or_the_marker_of_the_next_page() {
        let body = br#"{"messages": [{"body": {"href": "?marker=no", "links": [1]}, "id": "7"}, {"id": "8"}],
            "links": [{"rel": "self", "href": "/v2/queues/q/messages?marker=6"},
                      {"rel": "next", "href": "/v2/queues/q/messages?limit=2&marker=a%20b&echo=true"}]}"#;

        let page = Messages::parse(body).unwrap();

        assert_eq!((page.ids().collect::<Vec<_>>(), page.marker()), (vec!["7", "8"], Some("a%20b")));
        for without in [&b""[..], br#"{"messages":[]}"#, br#"{"messages":[],"links":[]}"#] {
            let messages = Messages::parse(without).unwrap();
            assert_eq!((messages.ids().len(), messages.marker()), (0, None));
        }
        for other in [&b"{}"[..], b"[]", b"<html>", br#"{"messages":[{}]}"#] {
            assert!(Messages::parse(other).is_none());
        }
    }
}
