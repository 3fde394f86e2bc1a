//! Two processes behind nginx and `HAProxy`, with the configurations in `ops/`: requests are
//! shared, streams and waiting requests pass, and a process may go away.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::read;
use crate::http::answered;
use support::events::Events;
use support::exposition::Exposition;
use support::ports::{first_that_starts, free_port};
use support::redis::{RedisServer, child_command, start_listening};
use support::sukkal::{Api, Sukkal};

/// A proxy that is killed on drop.
pub(crate) struct Proxy {
    process: Child,
    port: u16,
    _folder: TempDir,
}

impl Proxy {
    /// Starts a proxy with this configuration, in front of these servers. Its timeouts are shorter,
    /// so that a stream without heartbeats would be cut off.
    fn start(config: &str, servers: [&str; 2], command: impl Fn(&Path) -> Vec<String>) -> Self {
        first_that_starts(|| {
            let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
            let text = config
                .replace("127.0.0.1:8888", servers[0])
                .replace("127.0.0.1:8889", servers[1])
                .replace(":8080", &format!("127.0.0.1:{port}"))
                .replace("listen 8080", &format!("listen 127.0.0.1:{port}"))
                .replace("timeout client 60s", "timeout client 4s")
                .replace("timeout server 60s", "timeout server 4s")
                .replace("proxy_read_timeout 60s", "proxy_read_timeout 4s")
                .replace("worker_processes auto", "worker_processes 1")
                .replace("20000", "200")
                .replace("worker_rlimit_nofile 40000;", "");
            fs::write(folder.path().join("proxy.conf"), text).unwrap();
            let words = command(folder.path());
            let mut proxy = child_command(&words[0]);
            proxy.args(&words[1..]);
            start_listening(proxy, port).map(|process| Self { process, port, _folder: folder })
        })
    }

    /// Starts nginx.
    pub(crate) fn nginx_with(config: &str, servers: [&str; 2]) -> Self {
        Self::start(config, servers, |folder| {
            let folder = folder.to_str().unwrap();
            let own = "daemon off; pid nginx.pid; error_log stderr;";
            ["nginx", "-p", folder, "-c", "proxy.conf", "-g", own].map(str::to_owned).to_vec()
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub(super) fn api(&self, project: &str) -> Api {
        Api::new(self.url(), project)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _dead_already = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn two_processes(redis: &RedisServer) -> [Sukkal; 2] {
    let options = [
        ("SUKKAL_ADMIN_MODE", "true"),
        ("SUKKAL_AUTH__STRATEGIES", "proxy"),
        ("SUKKAL_AUTH__TRUSTED_PROXIES", "127.0.0.1"),
        ("SUKKAL_TRANSPORT__STREAM_HEARTBEAT", "1"),
    ];
    [(); 2].map(|()| Sukkal::start_with(&redis.url(), &options))
}

/// Returns the number of messages that a process has posted.
async fn posted(sukkal: &Sukkal) -> f64 {
    Exposition::of(&sukkal.url("")).await.value("sukkal_messages_posted_total").unwrap()
}

async fn post(api: &Api, body: u32) {
    answered(api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": body }] })), 201).await;
}

async fn check(proxy: &Proxy, mut servers: [Sukkal; 2]) {
    let api = proxy.api("p");
    let health = async |api: Api| api.get("/v2/health").header("X-Roles", "admin").send().await.unwrap().status();
    assert_eq!(
        (health(api.clone()).await, health(servers[0].project("p")).await),
        (403.try_into().unwrap(), 200.try_into().unwrap())
    );
    let answer = support::plain_http::get(format!("http://127.0.0.1:{}/metrics", proxy.port)).await.unwrap();
    assert_eq!(answer.status(), 404);

    let before = [posted(&servers[0]).await, posted(&servers[1]).await];
    for body in 0..20 {
        post(&api, body).await;
    }
    let shares = [posted(&servers[0]).await - before[0], posted(&servers[1]).await - before[1]];
    assert!(shares[0] > 0.0 && shares[1] > 0.0 && (19.5..20.5).contains(&(shares[0] + shares[1])), "{shares:?}");

    let mut events = Events::open(api.get("/v2/queues/q/messages?echo=true&since=now")).await;
    let quiet = Instant::now();
    while quiet.elapsed() < Duration::from_secs(6) {
        events.heartbeat().await;
    }
    post(&api, 20).await;
    assert_eq!(events.bodies(1).await, [json!(20)]);
    drop(events);
    answered(api.post("/v2/queues/empty/claims?wait=2", &json!({})), 204).await;

    // One of two processes stops, as in an upgrade.
    servers[0].terminate();
    assert!(servers[0].wait().success());
    let mut bodies = Vec::new();
    for body in 21..61 {
        post(&api, body).await;
        let popped = api.delete("/v2/queues/q/messages?pop=1").send().await.unwrap();
        // A pop is not sent to the other process if it may have happened.
        if popped.status() != 502 {
            bodies.extend(bodies_of(&popped.json().await.unwrap()));
        }
    }
    while bodies.len() < 61 {
        let popped: Value = api.delete("/v2/queues/q/messages?pop=20").send().await.unwrap().json().await.unwrap();
        assert_ne!(bodies_of(&popped), [0; 0], "messages are lost: {bodies:?}");
        bodies.extend(bodies_of(&popped));
    }
    assert_eq!(bodies, (0..61).collect::<Vec<_>>());
}

fn bodies_of(page: &Value) -> Vec<u64> {
    page["messages"].as_array().unwrap().iter().map(|message| message["body"].as_u64().unwrap()).collect()
}

pub(super) fn nginx(servers: [&str; 2]) -> Proxy {
    Proxy::nginx_with(&read("ops/nginx.conf"), servers)
}

#[tokio::test]
async fn two_processes_work_behind_nginx() {
    let redis = RedisServer::start();
    let servers = two_processes(&redis);
    let proxy = nginx([servers[0].address(), servers[1].address()]);

    check(&proxy, servers).await;
}

/// Starts a server that receives a request on each connection and closes it. Returns its address.
async fn closing_server(received: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let bytes = stream.read(&mut [0; 4096]).await.unwrap();
            received.fetch_add(usize::from(bytes > 0), Ordering::SeqCst);
        }
    });
    address
}

#[tokio::test]
async fn nginx_sends_a_pop_once_however_it_is_written() {
    for query in ["pop=1", "%70op=1", "pop=0&pop=1"] {
        let received = Arc::new(AtomicUsize::new(0));
        let servers = [closing_server(received.clone()).await, closing_server(received.clone()).await];
        let proxy = nginx([&servers[0], &servers[1]]);

        let answer = proxy.api("p").delete(&format!("/v2/queues/q/messages?{query}")).send().await.unwrap();

        assert_eq!((answer.status().as_u16(), received.load(Ordering::SeqCst)), (502, 1), "{query}");
    }
}

#[tokio::test]
async fn nginx_sends_a_pop_to_the_other_process_if_it_cannot_connect() {
    let redis = RedisServer::start();
    let [server, _] = two_processes(&redis);
    let proxy = nginx([&format!("127.0.0.1:{}", free_port()), server.address()]);

    // nginx begins with the first of the two.
    answered(proxy.api("p").delete("/v2/queues/q/messages?pop=1"), 200).await;
}

pub(super) fn haproxy(servers: [&str; 2]) -> Proxy {
    Proxy::start(&read("ops/haproxy.cfg"), servers, |folder| {
        let config = folder.join("proxy.conf");
        ["haproxy", "-db", "-f", config.to_str().unwrap()].map(str::to_owned).to_vec()
    })
}

#[tokio::test]
async fn two_processes_work_behind_haproxy() {
    let redis = RedisServer::start();
    let servers = two_processes(&redis);
    let proxy = haproxy([servers[0].address(), servers[1].address()]);

    check(&proxy, servers).await;
}
