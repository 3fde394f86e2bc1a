//! Nobody is called who should not be, and a subscriber cannot harm the service by its answer.

use std::future::Future;
use std::io;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};
use sukkal::push::client::Resolver;
use sukkal_storage::embedded::EmbeddedStore;
use tokio::task::spawn_blocking;

use super::endpoint::{Answer, Endpoint};
use super::{Bench, LOCAL, failing_first, id, numbers, retries_at_once, retry_policy};
use crate::http::answered;
use support::ports;
use support::test_bed::{Server, TestBed};

const NETWORKS: &str = "SUKKAL_PUSH__ALLOWED_NETWORKS";
const PORTS: &str = "SUKKAL_PUSH__ALLOWED_PORTS";
const SCHEMES: &str = "SUKKAL_PUSH__ALLOWED_SCHEMES";
const PERMITTED: &str = "127.0.0.1";
const REFUSED: &str = "127.0.0.2";
const NAME_REFUSED: &str = "the host \"localhost\" resolves to an address that is not allowed";

/// Resolves every name to the addresses that the test has set last.
#[derive(Clone, Default)]
struct SetAddresses(Arc<Mutex<Vec<IpAddr>>>);

impl SetAddresses {
    fn set(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }
}

impl Resolver for SetAddresses {
    fn resolve(&self, _name: String) -> Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>> {
        let addresses = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Box::pin(async move { Ok(addresses) })
    }
}

/// Returns 100,000 times the letter `A`, compressed by gzip.
fn compressed() -> Vec<u8> {
    let start = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xed\xc11\x01\x00\x00\x00\xc2\xa0l\xeb_\xca\x1a\x1e@\x01";
    let end = b"\xaf\x06\xd7\x9f\x8a\x05\xa0\x86\x01\x00";
    [&start[..], &[0; 96], end].concat()
}

/// Starts an endpoint for one notification, which this function answers. Returns its URL, and the
/// result of the function.
fn raw_endpoint<T: Send + 'static>(
    answer: impl FnOnce(String, &mut TcpStream) -> T + Send + 'static,
) -> (String, JoinHandle<T>) {
    let listener = ports::listen();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let thread = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 65_536];
        let length = stream.read(&mut request).unwrap();
        answer(String::from_utf8_lossy(&request[..length]).into_owned(), &mut stream)
    });
    (url, thread)
}

/// A server that nobody should connect to.
struct Bystander(TcpListener);

impl Bystander {
    /// Listens on this address, and on the port of the endpoint.
    fn beside(endpoint: &Endpoint, address: &str) -> Self {
        let address: Ipv4Addr = address.parse().unwrap();
        let listener = TcpListener::bind(SocketAddr::from((address, port(endpoint)))).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    /// Panics if somebody has connected.
    fn assert_alone(&self) {
        let connected = self.0.accept();
        assert!(connected.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "{connected:?}");
    }
}

fn port(endpoint: &Endpoint) -> u16 {
    endpoint.url("").rsplit(':').next().unwrap().parse().unwrap()
}

/// Returns the last attempts of a subscription, when it has made at least this many.
async fn attempts(bench: &Bench, id: &str, count: u64) -> Vec<Value> {
    bench.wait_until(id, |figures| figures["attempts"].as_u64() >= Some(count)).await;
    super::attempts(&bench.api, id).await
}

#[tokio::test(flavor = "multi_thread")]
async fn only_permitted_addresses_of_a_name_are_connected_to() {
    let resolver = SetAddresses::default();
    let store = EmbeddedStore::in_memory().unwrap();
    let server = Server::in_process(&store, &[(NETWORKS, "127.0.0.1,::1")], Arc::new(resolver.clone()));
    let bench = Bench { api: server.project("p"), store: TestBed::Embedded(store), server, redis: None };
    let endpoint = Endpoint::start();
    let bystander = Bystander::beside(&endpoint, REFUSED);
    // The operating system resolves this name to permitted addresses when the subscription is
    // created.
    let url = format!("http://localhost:{}/", port(&endpoint));
    let created = bench.subscribe(&url, json!({"_retry_policy": retry_policy()})).await;

    resolver.set(&[REFUSED]);
    bench.post(&numbers(0, 1)).await;
    for attempt in attempts(&bench, &id(&created), 1).await {
        let error = attempt["error"].as_str().unwrap();
        assert!(error.starts_with(NAME_REFUSED) && !error.contains(REFUSED), "{attempt}");
        assert_eq!(attempt["status"], Value::Null);
    }
    resolver.set(&[REFUSED, PERMITTED]);

    assert_eq!(endpoint.bodies(1).await, numbers(0, 1));
    bystander.assert_alone();
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_became_stricter_apply_to_existing_subscriptions() {
    let mut bench = Bench::redis_with(&[(NETWORKS, "127.0.0.0/8,::1")]);
    let endpoint = Endpoint::start();
    let mut ids = Vec::new();
    for host in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "localhost"] {
        let url = format!("http://{host}:{}/", port(&endpoint));
        ids.push(id(&bench.subscribe(&url, json!({"_retry_policy": retry_policy()})).await));
    }

    for (number, (option, value, reason)) in [
        (NETWORKS, "10.0.0.0/8", "is a loopback address; the operator can allow it by \""),
        (PORTS, "80,443", "the ports 80, 443 are allowed"),
        (SCHEMES, "https", "must be supported in the list [\"https\"]"),
    ]
    .into_iter()
    .enumerate()
    {
        bench.restart(&[(option, value)]).await;
        let is_paused = |figures: &Value| figures["state"] == "paused";
        let attempts_of = |figures: Value| figures["attempts"].as_u64().unwrap();
        bench.post(&numbers(number, 1)).await;
        for id in &ids {
            bench.act(id, "resume", &json!({})).await;
            let before = attempts_of(bench.figures(id).await);
            let has_result = |figures: &Value| is_paused(figures) || attempts_of(figures.clone()) > before;
            let figures = bench.wait_until(id, has_result).await;
            if is_paused(&figures) {
                assert!(figures["reason"].as_str().unwrap().contains(reason), "{figures}");
            } else {
                // The addresses of a name may change, so its messages are retried.
                let attempts = attempts(&bench, id, before + 1).await;
                assert!(attempts[0]["error"].as_str().unwrap().starts_with(NAME_REFUSED), "{attempts:?}");
            }
        }
    }
    assert_eq!(endpoint.received().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_may_not_call_a_subscriber_pauses_the_subscription_and_gives_up_no_message() {
    let mut bench = Bench::redis_with(&[]);
    let endpoint = Endpoint::start();
    let subscription = id(&bench.subscribe(&endpoint.url("/"), json!({"_retry_policy": retries_at_once()})).await);
    bench.restart(&[(NETWORKS, "10.0.0.0/8")]).await;
    bench.post(&numbers(0, 1)).await;
    bench.wait_until(&subscription, |figures| figures["state"] == "paused").await;

    // The other process does not deliver while the first one has the lease. Both say why nothing is
    // sent.
    let other = bench.store.serve(&LOCAL);
    let mut refusing = std::mem::replace(&mut bench.server, other);
    bench.api = bench.server.project("p");
    let figures = bench.figures(&subscription).await;
    let reason = figures["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("The process that delivers refuses the subscriber: subscriber is not allowed: 127.0.0.1"),
        "{figures}"
    );
    assert_eq!((&figures["pending"], &figures["attempts"]), (&json!(1), &json!(0)));
    refusing.stop().await;
    bench.act(&subscription, "resume", &json!({})).await;

    assert_eq!(endpoint.bodies(1).await, numbers(0, 1));
}

/// Row 8.6-6.
#[tokio::test(flavor = "multi_thread")]
async fn no_redirect_is_followed() {
    let bench = Bench::embedded();
    let target = Endpoint::start();
    let location = target.url("/");
    let statuses = AtomicUsize::new(0);
    let endpoint = Endpoint::answering(move |_| {
        let number = statuses.fetch_add(1, Ordering::SeqCst);
        Answer::With([301, 302, 303, 307, 308][number % 5], "location", location.clone())
    });
    let options = json!({"_retry_policy": retry_policy(), "concurrency": 1});
    let created = bench.subscribe(&endpoint.url("/"), options).await;

    bench.post(&numbers(0, 5)).await;

    let attempts = attempts(&bench, &id(&created), 5).await;
    assert!(attempts.iter().all(|attempt| (301..=308).contains(&attempt["status"].as_u64().unwrap())));
    assert_eq!(target.received().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_in_the_environment_are_ignored() {
    let endpoint = Endpoint::start();
    let proxy = Bystander::beside(&endpoint, REFUSED);
    let url = format!("http://{REFUSED}:{}", port(&endpoint));
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let proxies = names.map(|name| (name, url.as_str()));
    let bench = Bench::redis_with(&proxies);

    bench.subscribe(&endpoint.url("/"), json!({})).await;
    bench.post(&numbers(0, 1)).await;

    assert_eq!(endpoint.bodies(1).await, numbers(0, 1));
    proxy.assert_alone();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rest_of_a_large_answer_is_not_read() {
    let bench = Bench::embedded();
    let (url, sent) = raw_endpoint(|_, stream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").unwrap();
        let block = [b'x'; 8_192];
        let mut sent = 0;
        while stream.write_all(&block).is_ok() {
            sent += block.len();
        }
        sent
    });
    let created = bench.subscribe(&url, json!({})).await;

    bench.post(&numbers(0, 1)).await;

    bench.wait_until(&id(&created), |figures| figures["delivered"] == 1).await;
    assert_eq!(attempts(&bench, &id(&created), 1).await[0]["response"], "x".repeat(200));
    let sent = spawn_blocking(move || sent.join().unwrap()).await.unwrap();
    // The operating system buffers more than Sukkal reads.
    assert!(sent < 32 << 20, "{sent} bytes were sent before the connection was closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_answer_is_not_decompressed() {
    let bench = Bench::embedded();
    let (url, request) = raw_endpoint(|request, stream| {
        let body = compressed();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        request
    });
    let created = bench.subscribe(&url, json!({})).await;

    bench.post(&numbers(0, 1)).await;

    let attempts = attempts(&bench, &id(&created), 1).await;
    let response = attempts[0]["response"].as_str().unwrap();
    assert!(!response.contains('A') && response.chars().count() <= compressed().len(), "{response:?}");
    let request = spawn_blocking(move || request.join().unwrap()).await.unwrap();
    assert!(!request.to_lowercase().contains("accept-encoding"), "{request}");
}

/// Everything that must stay secret contains this text.
const MARK: &str = "hushhush";

#[tokio::test(flavor = "multi_thread")]
async fn secrets_and_bodies_reach_neither_the_log_nor_the_attempts() {
    let bench = Bench::redis_with(&[("SUKKAL_LOG__FILTER", "trace")]);
    let failing = failing_first(vec![500, 302, 404, 410]);
    // Nothing listens on this port.
    let closed = Bystander::beside(&failing, REFUSED);
    let closed_url = format!("http://{REFUSED}:{}/{MARK}?token={MARK}", port(&failing));
    drop(closed);
    let secret = "whsec_hushhushhushhushhushhushhushhush";
    let options = json!({
        "_retry_policy": retry_policy(), "notify_queue": "notices", "concurrency": 1,
        "post_headers": {"X-Api-Key": MARK}, "post_data": format!("{{\"{MARK}\": \"$zaqar_message$\"}}"),
    });
    let mut ids = Vec::new();
    for url in [failing.url(&format!("/{MARK}?token={MARK}")), closed_url] {
        let fields = json!({"subscriber": url, "secret": secret, "options": options});
        ids.push(id(&answered(bench.api.post("/v2/queues/q/subscriptions", &fields), 201).await.json()));
    }
    let invalid = json!({"subscriber": format!("ftp://{MARK}:{MARK}@a.example/{MARK}"), "secret": MARK});
    let refused = answered(bench.api.post("/v2/queues/q/subscriptions", &invalid), 400).await;
    assert!(!refused.text.contains(MARK));

    bench.post(&[json!({ MARK: MARK })]).await;
    bench.wait_until(&ids[0], |figures| figures["state"] == "disabled").await;
    bench.act(&ids[0], "resume", &json!({})).await;
    bench.wait_until(&ids[0], |figures| figures["delivered"] == 1).await;

    for id in &ids {
        for attempt in attempts(&bench, id, 2).await {
            assert!(!attempt.to_string().contains(MARK), "{attempt}");
        }
    }
    let Server::Process(sukkal) = &bench.server else { panic!("a process serves Redis") };
    let log = sukkal.log();
    assert!(log.iter().any(|line| line.contains("DEBUG")) && log.iter().any(|line| line.contains("disabled")));
    let leaks: Vec<&String> = log.iter().filter(|line| line.contains(MARK)).collect();
    assert!(leaks.is_empty(), "{leaks:#?}");
}
