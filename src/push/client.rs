//! The HTTP client that calls subscribers. It connects only to addresses that the operator permits:
//! each name is resolved and checked when a connection is made, and the connection goes to one of
//! the addresses that were checked.

use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::{CONNECTION, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::{Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_rustls::rustls::RootCertStore;
use tower_service::Service;
use tracing::{info, warn};

use super::connections::{CountingConnector, OpenConnections};
use crate::broker::in_use::InUse;
use sukkal_base::outbound;
use sukkal_domain::address_rules::RefusedName;
use sukkal_domain::{AddressRules, ProjectId, PushConfig, Subscriber};
use sukkal_storage::{ATTEMPT_DURATION_MAX, Admission, Permit};

/// Maximum time to resolve a name and to connect.
const CONNECT_DURATION_MAX: Duration = Duration::from_secs(10);
/// Time for which an unused connection is kept open.
const IDLE_DURATION_MAX: Duration = Duration::from_secs(30);
/// Time after which a wait for a connection begins again.
const TURN_DURATION_MAX: Duration = Duration::from_secs(3_600);
/// Maximum number of names that are resolved at the same time. The operating system uses a thread
/// for each, also after the connection has stopped waiting, and tokio has 512 of them.
const LOOKUPS_MAX: usize = 256;
/// Maximum size of the head of a response, in bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Maximum number of bytes that are read of the body of a response.
const RESPONSE_BYTES_MAX: usize = 64 * 1024;
/// Number of bytes of a response that are kept.
const RESPONSE_BYTES_KEPT: usize = 200;
/// Longest time that a subscriber may ask for in `Retry-After`.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(24 * 3_600);
const OWN_NAME: HeaderValue = HeaderValue::from_static(concat!("Sukkal/", env!("CARGO_PKG_VERSION")));

tokio::task_local! {
    /// The project whose subscriber is called. Resolvers are called inside the request, and learn
    /// only the name.
    static PROJECT: ProjectId;
}

/// Resolves names to addresses.
pub trait Resolver: Send + Sync + 'static {
    /// Returns the addresses of this name.
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;
}

/// Resolves names as the operating system does.
#[derive(Debug)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        Box::pin(async move { Ok(lookup_host((name.as_str(), 0)).await?.map(|address| address.ip()).collect()) })
    }
}

/// The response of a subscriber, or of the mail server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Response {
    pub(super) status: u16,
    /// How long the subscriber has asked to wait.
    pub(super) retry_after: Option<Duration>,
    /// The first bytes of its body.
    pub(super) start: String,
    /// What is worth knowing although the notification was accepted.
    pub(super) note: Option<String>,
}

/// Why a subscriber could not be called.
#[derive(Debug, Error)]
pub(super) enum SendFailure {
    #[error("{0}")]
    Refused(String),
    #[error("the subscriber is not a URI")]
    Uri,
    #[error("no answer within {} s", ATTEMPT_DURATION_MAX.as_secs())]
    Timeout,
    #[error("{0}")]
    Connection(String),
}

/// One project uses at most this share of all connections, so that its subscribers that do not
/// answer leave connections for the others.
const SHARE_OF_PROJECT: usize = 4;

/// The client. Its connections are bounded: in all, for each project, and for each host.
pub(super) struct SubscriberClient {
    http: Client<HttpsConnector<CountingConnector<HttpConnector<CheckedResolver>>>, Full<Bytes>>,
    connections: SharedClient,
    /// The open connections, those that nobody uses included. From this number on, a connection is
    /// closed after its request.
    open: OpenConnections,
    kept_max: usize,
    max_per_host: usize,
    hosts: InUse<String, Admission>,
    /// The connections to the mail server. They do not count towards `connections`, so that mails
    /// and requests never wait for each other.
    mail: SharedClient,
}

/// Connections that all projects share.
struct SharedClient {
    all: Arc<Admission>,
    max_per_project: usize,
    projects: InUse<ProjectId, Admission>,
}

impl SharedClient {
    fn new(max: usize) -> Self {
        let max_per_project = max.div_ceil(SHARE_OF_PROJECT);
        Self { all: Admission::new(max), max_per_project, projects: InUse::default() }
    }

    /// Waits for a connection, within the share of the project and in its turn.
    async fn turn(&self, project: &ProjectId) -> [Permit; 2] {
        let own = self.projects.get_or_insert_with(project.clone(), || Admission::new(self.max_per_project));
        let own = turn(&own, project).await;
        [own, turn(&self.all, project).await]
    }
}

/// Permission to use a connection.
pub(super) struct ConnectionPermit {
    _connection: [Permit; 2],
    _host: Option<Permit>,
}

impl SubscriberClient {
    /// Creates a client. `mail_connections_max` bounds the connections to the mail server.
    pub(super) fn new(config: &PushConfig, mail_connections_max: usize, resolver: Arc<dyn Resolver>) -> Self {
        let checked = CheckedResolver {
            rules: Arc::new(config.addresses.clone()),
            resolver,
            lookups: Admission::new(LOOKUPS_MAX),
        };
        let mut connector = HttpConnector::new_with_resolver(checked);
        connector.enforce_http(false);
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_DURATION_MAX));
        let open = OpenConnections::default();
        let connector = CountingConnector::new(connector, open.clone());
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(outbound::tls_config(trusted_certificates()))
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_DURATION_MAX)
            .pool_max_idle_per_host(config.max_connections_per_host)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        let connections = SharedClient::new(config.max_connections);
        Self {
            http,
            connections,
            open,
            kept_max: config.max_connections,
            max_per_host: config.max_connections_per_host,
            hosts: InUse::default(),
            mail: SharedClient::new(mail_connections_max),
        }
    }

    /// Waits for a connection to the host or the mail server of a subscriber, in the turn of the
    /// project.
    pub(super) async fn permit(&self, project: &ProjectId, subscriber: &Subscriber) -> ConnectionPermit {
        let Some(url) = subscriber.url() else {
            return ConnectionPermit { _connection: self.mail.turn(project).await, _host: None };
        };
        let host = format!("{}:{}", url.host_str().unwrap_or_default(), subscriber.port());
        let host = self.hosts.get_or_insert_with(host, || Admission::new(self.max_per_host));
        let host = turn(&host, project).await;
        ConnectionPermit { _connection: self.connections.turn(project).await, _host: Some(host) }
    }

    /// Posts a body, and reads the start of the response. Follows no redirect and uses no proxy.
    pub(super) async fn post(
        &self,
        project: &ProjectId,
        subscriber: &Subscriber,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, SendFailure> {
        let url = subscriber.url().ok_or(SendFailure::Uri)?;
        let uri: Uri = url.as_str().parse().map_err(|_| SendFailure::Uri)?;
        headers.entry(USER_AGENT).or_insert(OWN_NAME);
        if self.open.count() >= self.kept_max {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        let mut request = Request::post(uri).body(Full::from(body)).map_err(|_| SendFailure::Uri)?;
        request.headers_mut().extend(headers);
        let exchange = async {
            let response = self
                .http
                .request(request)
                .await
                .map_err(|error| SendFailure::Connection(outbound::root_cause(&error).to_string()))?;
            let (head, mut body) = response.into_parts();
            let (mut start, mut read) = (Vec::new(), 0);
            while read < RESPONSE_BYTES_MAX {
                // The status counts, even if the connection breaks before the end of the body.
                let Some(Ok(frame)) = body.frame().await else { break };
                let chunk = frame.into_data().unwrap_or_default();
                let left = RESPONSE_BYTES_KEPT - start.len();
                start.extend_from_slice(&chunk[..chunk.len().min(left)]);
                read += chunk.len();
            }
            let (status, retry_after) = (head.status.as_u16(), retry_after(&head.headers));
            Ok(Response { status, retry_after, start: printable(&start), note: None })
        };
        timeout(ATTEMPT_DURATION_MAX, PROJECT.scope(project.clone(), exchange))
            .await
            .unwrap_or(Err(SendFailure::Timeout))
    }
}

/// Waits for a permit in the turn of the project.
async fn turn(admission: &Arc<Admission>, project: &ProjectId) -> Permit {
    loop {
        // A wait that ends without a permit begins again: a delivery has no deadline.
        if let Ok(permit) = admission.acquire(project, TURN_DURATION_MAX).await {
            return permit;
        }
    }
}

/// Resolves names, and returns only permitted addresses.
#[derive(Clone)]
struct CheckedResolver {
    rules: Arc<AddressRules>,
    resolver: Arc<dyn Resolver>,
    lookups: Arc<Admission>,
}

impl Service<Name> for CheckedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (this, project) = (self.clone(), PROJECT.try_get());
        Box::pin(async move {
            let permit = turn(&this.lookups, &project?).await;
            let lookup = this.resolver.resolve(name.as_str().to_owned());
            let lookup = tokio::spawn(async move {
                let _permit = permit;
                lookup.await
            });
            let found =
                timeout(CONNECT_DURATION_MAX, lookup).await.map_err(|_| "the name was not resolved in time")???;
            let (mut permitted, mut refusal) = (Vec::new(), None);
            for address in found {
                match this.rules.permits(address) {
                    Ok(()) => permitted.push(SocketAddr::new(address, 0)),
                    Err(reason) => refusal = Some(reason),
                }
            }
            match refusal {
                Some(refusal) if permitted.is_empty() => {
                    info!(%name, %refusal, "the host of a subscriber is refused");
                    Err(RefusedName(name.as_str().to_owned()).into())
                }
                _ => Ok(permitted.into_iter()),
            }
        })
    }
}

/// Returns the certificates that subscribers and the mail server are checked with.
pub(super) fn trusted_certificates() -> RootCertStore {
    outbound::trusted_certificates().unwrap_or_else(|error| {
        warn!(%error, "subscribers with https cannot be called, and mails cannot be sent with TLS");
        RootCertStore::empty()
    })
}

/// Returns the time that `Retry-After` asks for. It has seconds or a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let wait = if is_number {
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::now()).unwrap_or_default()
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

/// Returns the bytes of a response that are kept, as text without control characters, which could
/// confuse a terminal.
pub(super) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(RESPONSE_BYTES_KEPT)])
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::{Instant, sleep};

    use super::*;
    use sukkal_domain::mailto::MAILTO;

    fn rules() -> AddressRules {
        let (networks, ports) = (vec!["127.0.0.1".parse().unwrap()], vec!["1-65535".parse().unwrap()]);
        AddressRules::new(networks, ports, vec!["http".to_owned()])
    }

    fn project() -> ProjectId {
        ProjectId::new("p").unwrap()
    }

    /// Resolves every name to this machine.
    struct LocalResolver;

    impl Resolver for LocalResolver {
        fn resolve(&self, _name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
            Box::pin(async { Ok(vec!["127.0.0.1".parse().unwrap()]) })
        }
    }

    fn config() -> PushConfig {
        PushConfig {
            max_subscriptions_per_queue: 1,
            require_confirmation: false,
            addresses: rules(),
            max_connections: 2,
            max_connections_per_host: 2,
            disable_after_s: 60,
        }
    }

    fn client() -> SubscriberClient {
        SubscriberClient::new(&config(), 1, Arc::new(LocalResolver))
    }

    /// Posts to a server that sends the start of an answer at once, and then a byte per second.
    /// Returns the answer, and the time until it came.
    async fn post_to_slow_server(start: &'static str) -> (Result<Response, SendFailure>, Duration) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
            stream.write_all(start.as_bytes()).await.unwrap();
            while stream.write_all(b"x").await.is_ok() {
                sleep(Duration::from_secs(1)).await;
            }
        });
        let client = client();
        let subscriber = Subscriber::parse(&url, &rules()).unwrap();
        let began = Instant::now();
        let answer = client.post(&project(), &subscriber, HeaderMap::new(), b"{}".to_vec()).await;
        let duration = began.elapsed();
        timeout(Duration::from_secs(60), server).await.expect("the connection is closed").unwrap();
        (answer, duration)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_byte_by_byte_ends_at_the_limit() {
        for start in ["HTTP/1.1 200 OK\r\nslow: ", "HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"] {
            let (answer, duration) = post_to_slow_server(start).await;

            assert!(matches!(answer, Err(SendFailure::Timeout)), "{start:?}: {answer:?}");
            assert_eq!(duration.as_secs(), ATTEMPT_DURATION_MAX.as_secs());
        }
    }

    /// Needs ten seconds for every name of the project `slow`.
    struct SlowResolver;

    impl Resolver for SlowResolver {
        fn resolve(&self, name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
            Box::pin(async move {
                if name.starts_with("slow") {
                    sleep(CONNECT_DURATION_MAX).await;
                }
                Ok(vec!["127.0.0.1".parse().unwrap()])
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_one_project_do_not_delay_those_of_another() {
        let (rules, lookups) = (Arc::new(rules()), Admission::new(LOOKUPS_MAX));
        let resolver = CheckedResolver { rules, resolver: Arc::new(SlowResolver), lookups };
        let lookup = |project: &str, name: &str| {
            let (project, name) = (ProjectId::new(project).unwrap(), name.parse().unwrap());
            let mut resolver = resolver.clone();
            tokio::spawn(PROJECT.scope(project, async move { resolver.call(name).await.map(Iterator::count) }))
        };
        let began = Instant::now();
        for number in 0..10 * LOOKUPS_MAX {
            drop(lookup("slow", &format!("slow-{number}.example")));
        }
        tokio::task::yield_now().await;

        let found = lookup("other", "other.example").await.unwrap();

        assert_eq!(found.unwrap(), 1);
        assert_eq!(began.elapsed().as_secs(), CONNECT_DURATION_MAX.as_secs(), "it has the next turn");
    }

    #[tokio::test]
    async fn unused_connections_are_bounded_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    while stream.read(&mut [0; 4_096]).await.is_ok_and(|length| length > 0) {
                        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
                    }
                });
            }
        });
        let client = client();

        for host in 0..8 {
            let url = format!("http://host-{host}.example:{port}/");
            let subscriber = Subscriber::parse(&url, &rules()).unwrap();
            for _ in 0..2 {
                let answer = client.post(&project(), &subscriber, HeaderMap::new(), b"{}".to_vec()).await.unwrap();
                assert_eq!(answer.status, 200);
            }
            // At most the two that are kept, and the one that was used last.
            assert!(client.open.count() <= 3, "{} connections are open", client.open.count());
        }
    }

    #[tokio::test]
    async fn endless_informational_responses_end_the_attempt() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let flood = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
            while stream.write_all(&flood).await.is_ok() {}
        });
        let subscriber = Subscriber::parse(&url, &rules()).unwrap();

        let answer = client().post(&project(), &subscriber, HeaderMap::new(), b"{}".to_vec()).await;

        assert!(matches!(&answer, Err(SendFailure::Connection(_))), "{answer:?}");
    }

    #[tokio::test]
    async fn a_project_leaves_connections_to_subscribers_and_to_the_mail_server_for_the_others() {
        let config = PushConfig { max_connections: 4, max_connections_per_host: 4, ..config() };
        let client = SubscriberClient::new(&config, 4, Arc::new(LocalResolver));
        let (rules, other) = (rules().with_scheme(MAILTO), ProjectId::new("other").unwrap());
        let subscribers = ["http://a.example:80/", "mailto:a@b.example"];
        let [url, mail] = subscribers.map(|text| Subscriber::parse(text, &rules).unwrap());

        let _greedy = client.permit(&project(), &url).now_or_never().unwrap();
        let _also = client.permit(&project(), &mail).now_or_never().expect("mails have connections of their own");

        for subscriber in [&url, &mail] {
            assert!(client.permit(&project(), subscriber).now_or_never().is_none(), "it has its share");
            assert!(client.permit(&other, subscriber).now_or_never().is_some());
        }
    }

    #[test]
    fn retry_after_has_seconds_or_a_date_and_is_bounded() {
        let wait = |text: &str| {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]);
            retry_after(&headers)
        };

        assert_eq!(wait("7"), Some(Duration::from_secs(7)));
        assert_eq!(wait("99999999999999999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(wait("Fri, 06 Nov 2093 08:49:37 GMT"), Some(RETRY_AFTER_MAX));
        // The examples of RFC 9110, section 5.6.7, which are in the past.
        let past = ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"];
        for date in past {
            assert_eq!(wait(date), Some(Duration::ZERO), "{date}");
        }
        for other in ["", "-1", "1.5", "soon"] {
            assert_eq!(wait(other), None, "{other:?}");
        }
    }
}
