//! Addresses of both families in every option that has one: `[::1]` alone, two of them, and mixed
//! with others.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Stdio;

use reqwest::Method;
use serde_json::json;
use tokio::task::block_in_place;

use crate::auth::{STRATEGIES, TRUSTED_PROXIES};
use crate::http::answered;
use support::cluster::RedisCluster;
use support::redis::{RedisServer, child_command};
use support::root;
use support::sukkal::{POOLING, Sukkal, binary};
use support::waiting::block_until;

/// Lets a server of Redis listen on both families.
const BOTH: (&str, &str) = ("bind", "127.0.0.1 ::1");

/// Posts a message through a service over this store.
async fn post(store: &str) {
    let sukkal = Sukkal::start(store);
    let posted = sukkal.project("p").post("/v2/queues/q/messages", &json!({"messages": [{"body": 1}]}));
    answered(posted, 201).await;
}

#[tokio::test]
async fn a_single_server_can_have_an_address_of_ipv6() {
    let redis = RedisServer::start_with(&[BOTH]);
    let port = redis.port();

    for host in ["[::1]", "[0:0::1]", "localhost", "127.0.0.1"] {
        post(&format!("redis://{host}:{port}/0")).await;
    }
    let pools = Sukkal::start_with("memory:", &POOLING);
    let pool = json!({"uri": format!("redis://[::1]:{port}"), "weight": 1});
    let created = pools.project("p").request(Method::PUT, "/v2/pools/p").header("X-Roles", "admin").json(&pool);
    answered(created, 201).await;
    answered(pools.project("p").put("/v2/queues/in-the-pool"), 201).await;
}

#[tokio::test]
async fn a_cluster_can_have_addresses_of_ipv6() {
    let cluster = RedisCluster::start_with(&[BOTH, ("cluster-announce-ip", "::1")]);
    let [one, two, three] = [0, 1, 2].map(|node| cluster.nodes()[node].port());

    for hosts in [
        format!("[::1]:{one}"),
        format!("[::1]:{one},[::1]:{two}"),
        format!("127.0.0.1:{one},[::1]:{two},localhost:{three}"),
        format!("[::1]:1,127.0.0.1:1,[::1]:{three}"),
    ] {
        post(&format!("redis-cluster://{hosts}")).await;
    }
}

#[tokio::test]
async fn sentinels_can_have_addresses_of_ipv6() {
    let master = RedisServer::start_with(&[BOTH]);
    let [one, two] = [(); 2].map(|()| RedisServer::start_sentinel_with("main", &master, &[BOTH]));

    for hosts in [
        format!("[::1]:{}", one.port()),
        format!("[::1]:{},[::1]:{}", one.port(), two.port()),
        format!("127.0.0.1:{},[::1]:{}", one.port(), two.port()),
        format!("[::1]:1,[::1]:{}", two.port()),
    ] {
        post(&format!("redis-sentinel://{hosts}/main")).await;
    }
}

#[tokio::test]
async fn listeners_can_have_addresses_of_ipv6() {
    let others = [("SUKKAL_OPERATIONS__BIND", "[::1]:0"), ("SUKKAL_WEBSOCKET__BIND", "[::1]:0")];
    let sukkal = Sukkal::start_where("[::1]:0", "memory:", &others);

    assert!(sukkal.address().starts_with("[::1]:"));
    answered(sukkal.project("p").put("/v2/queues/q"), 201).await;
}

/// Returns a listener at an address of IPv6, and the text of the address.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_servers_can_have_addresses_of_ipv6() {
    let [(keys, keys_at), (collector, collector_at), (mail, mail_at)] = [(); 3].map(|()| listener());
    let port = mail_at.rsplit(':').next().unwrap();
    let options = [
        (STRATEGIES, "proxy,jwt"),
        (TRUSTED_PROXIES, "127.0.0.1,::1"),
        ("SUKKAL_JWT__ISSUER", "me"),
        ("SUKKAL_JWT__AUDIENCE", "sukkal"),
        ("SUKKAL_JWT__JWKS", &format!("http://{keys_at}/keys")),
        ("SUKKAL_TELEMETRY__OTLP_ENDPOINT", &format!("http://{collector_at}")),
        ("SUKKAL_MAIL__HOST", "[::1]"),
        ("SUKKAL_MAIL__PORT", port),
        ("SUKKAL_MAIL__SENDER", "q@example.com"),
        ("SUKKAL_MAIL__ENCRYPTION", "none"),
        ("SUKKAL_MAIL__TRUSTED_RECIPIENTS", "*"),
    ];
    let sukkal = Sukkal::start_where("[::1]:0", "memory:", &options);

    let subscriber = json!({"subscriber": "mailto:a@example.com"});
    answered(sukkal.project("p").post("/v2/queues/q/subscriptions", &subscriber), 201).await;
    let mut command = child_command(binary());
    command.args(["message", "post", "q", "body", "--url", &sukkal.url(""), "--project", "p"]).stdout(Stdio::null());
    assert!(block_in_place(|| command.status()).unwrap().success());

    for (name, server) in [("keys", keys), ("traces", collector), ("mails", mail)] {
        block_in_place(|| {
            server.set_nonblocking(true).unwrap();
            block_until(&format!("the server for {name} is called"), || server.accept().is_ok());
        });
    }
}

#[tokio::test]
async fn the_image_listens_on_both_families() {
    let dockerfile = std::fs::read_to_string(root().join("Dockerfile")).unwrap();
    let bind = dockerfile.split("SUKKAL_BIND=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let bind = bind.replace("8888", "0");

    let sukkal = Sukkal::start_where(&bind, "memory:", &[(STRATEGIES, "none")]);

    let address: SocketAddr = sukkal.address().parse().unwrap();
    for ip in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        TcpStream::connect(SocketAddr::new(ip, address.port())).unwrap_or_else(|error| panic!("{ip}: {error}"));
    }
}
