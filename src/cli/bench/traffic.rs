//! The requests of a run. They are built once; each request sent is a clone, some with another
//! path.

use bytes::Bytes;
use hyper::http::Error as HttpError;
use hyper::{Method, Uri};

use super::options::Options;
use super::target::{Client, Outgoing};

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

/// All requests to the queues of a run.
pub(super) struct Traffic {
    queues: Vec<Requests>,
}

/// The prepared requests to one queue.
pub(super) struct Requests {
    client: Client,
    name: String,
    post: Outgoing,
    first_page: Outgoing,
    claim: Outgoing,
    delete: Outgoing,
    /// The path and query of `first_page`, to which a marker is appended.
    page_prefix: String,
    /// The path and query of `delete`, to which ids are appended.
    delete_prefix: String,
    message: String,
}

impl Traffic {
    /// Builds the requests that the options ask for.
    ///
    /// Fails if they contain characters that HTTP does not allow.
    pub(super) fn new(options: &Options, client: &Client, queues: &[String]) -> Result<Self, HttpError> {
        let queues = queues.iter().map(|queue| Requests::new(options, client, queue)).collect::<Result<_, _>>()?;
        Ok(Self { queues })
    }

    /// The requests to queue number `n`, modulo the number of queues.
    pub(super) fn queue(&self, n: usize) -> &Requests {
        &self.queues[n % self.queues.len()]
    }

    /// The requests to a random queue.
    pub(super) fn random_queue(&self, rng: &mut fastrand::Rng) -> &Requests {
        &self.queues[rng.usize(..self.queues.len())]
    }

    pub(super) fn queues(&self) -> &[Requests] {
        &self.queues
    }
}

impl Requests {
    fn new(options: &Options, client: &Client, queue: &str) -> Result<Self, HttpError> {
        let path = format!("/v2/queues/{queue}");
        let limit = options.limit;
        let page = format!("{path}/messages?limit={limit}&echo=true&include_claimed=true");
        let ids = format!("{path}/messages?ids=");
        let message = message(options.message_bytes);
        let batch = usize::try_from(options.batch).unwrap_or(usize::MAX);
        Ok(Self {
            name: queue.to_owned(),
            post: client.request(Method::POST, &format!("{path}/messages"), Some(messages(&message, batch)))?,
            first_page: client.request(Method::GET, &page, None)?,
            claim: client.request(Method::POST, &format!("{path}/claims?limit={limit}"), Some(CLAIM.into()))?,
            delete: client.request(Method::DELETE, &ids, None)?,
            page_prefix: client.path(&format!("{page}&marker=")),
            delete_prefix: client.path(&ids),
            client: client.clone(),
            message,
        })
    }

    /// The name of the queue.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Creates the queue.
    pub(super) fn create_queue(&self) -> Result<Outgoing, HttpError> {
        self.client.request(Method::PUT, &format!("/v2/queues/{}", self.name), None)
    }

    /// Deletes the queue.
    pub(super) fn delete_queue(&self) -> Result<Outgoing, HttpError> {
        self.client.request(Method::DELETE, &format!("/v2/queues/{}", self.name), None)
    }

    /// Posts a batch of messages.
    pub(super) fn post(&self) -> Outgoing {
        self.post.clone()
    }

    /// Posts the given number of messages, in as many requests as necessary. Each item is the
    /// number of messages in a request, and the request.
    pub(super) fn fill(&self, messages: u64) -> Result<impl Iterator<Item = (u64, Outgoing)> + use<>, HttpError> {
        let most = (POST_BYTES_MAX / self.message.len()).clamp(1, POST_MESSAGES_MAX);
        let (full, rest) = (messages / most as u64, messages % most as u64);
        let rest = usize::try_from(rest).unwrap_or_default();
        let post = |size| {
            let body = self::messages(&self.message, size);
            self.client.request(Method::POST, &format!("/v2/queues/{}/messages", self.name), Some(body))
        };
        let (full_post, rest_post) = (post(most)?, post(rest)?);
        let posts = (0..full).map(move |_| (most as u64, full_post.clone()));
        Ok(posts.chain((rest > 0).then_some((rest as u64, rest_post))))
    }

    /// Lists the first messages.
    pub(super) fn first_page(&self) -> Outgoing {
        self.first_page.clone()
    }

    /// Lists the messages after a marker. Returns `None` if the marker is not valid in a URL.
    pub(super) fn page_after(&self, marker: &str) -> Option<Outgoing> {
        let mut request = self.first_page.clone();
        *request.uri_mut() = Uri::from_maybe_shared([&self.page_prefix, marker].concat()).ok()?;
        Some(request)
    }

    /// Claims messages.
    pub(super) fn claim(&self) -> Outgoing {
        self.claim.clone()
    }

    /// Deletes messages, at least one. Returns `None` if an id is not valid in a URL.
    pub(super) fn delete<'a>(&self, ids: impl Iterator<Item = &'a str>) -> Option<Outgoing> {
        let mut path = self.delete_prefix.clone();
        for id in ids {
            path.push_str(id);
            path.push(',');
        }
        path.pop();
        let mut request = self.delete.clone();
        *request.uri_mut() = Uri::from_maybe_shared(path).ok()?;
        Some(request)
    }
}

/// A message whose body is a string of the given number of bytes.
fn message(bytes: usize) -> String {
    let body: String = FILLER.chars().cycle().take(bytes).collect();
    format!(r#"{{"ttl":{MESSAGE_TTL_S},"body":"{body}"}}"#)
}

fn messages(message: &str, times: usize) -> Bytes {
    let messages = vec![message; times].join(",");
    Bytes::from(format!(r#"{{"messages":[{messages}]}}"#))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use futures::executor::block_on;
    use http_body_util::BodyExt;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn traffic(flags: &[&str]) -> Traffic {
        let options = Command::parse_from([&["bench", "http://h/base"], flags].concat()).options;
        let client = Client::new(options.url(), &options.project);
        Traffic::new(&options, &client, &["q".to_owned(), "r".to_owned()]).unwrap()
    }

    fn bodies(request: Outgoing) -> Vec<usize> {
        let body = block_on(request.into_body().collect()).unwrap().to_bytes();
        let document: Value = serde_json::from_slice(&body).unwrap();
        let messages = document["messages"].as_array().unwrap();
        messages.iter().map(|message| message["body"].as_str().unwrap().len()).collect()
    }

    #[test]
    fn a_post_has_the_requested_number_of_messages_of_the_requested_size() {
        let traffic = traffic(&["--batch", "3", "--message-bytes", "100"]);

        assert_eq!(bodies(traffic.queue(0).post()), [100, 100, 100]);
    }

    #[test]
    fn fill_splits_the_messages_into_posts_that_services_accept() {
        let small = traffic(&[]).queue(0).fill(250).unwrap();
        let large = traffic(&["--message-bytes", "200000"]).queue(0).fill(3).unwrap();

        let small: Vec<_> = small.map(|(messages, post)| (messages, bodies(post).len())).collect();
        assert_eq!(small, [(100, 100), (100, 100), (50, 50)]);
        assert_eq!(large.map(|(_, post)| bodies(post)).collect::<Vec<_>>(), [[200_000]; 3]);
    }

    #[test]
    fn requests_have_the_paths_of_the_api() {
        let traffic = traffic(&["--limit", "5"]);
        let uri = |request: Option<Outgoing>| request.unwrap().uri().to_string();
        let (q, r) = (traffic.queue(0), traffic.queue(1));
        let page = "/base/v2/queues/q/messages?limit=5&echo=true&include_claimed=true";

        assert_eq!(uri(Some(q.first_page())), page);
        assert_eq!(uri(q.page_after("m")), format!("{page}&marker=m"));
        assert_eq!(uri(Some(r.claim())), "/base/v2/queues/r/claims?limit=5");
        assert_eq!(uri(r.delete(["a", "b"].into_iter())), "/base/v2/queues/r/messages?ids=a,b");
        assert_eq!(uri(r.create_queue().ok()), "/base/v2/queues/r");
        assert!(q.page_after("not a marker").is_none());
    }
}
