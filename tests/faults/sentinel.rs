//! A Sentinel group: its master is found, and found again after a failover, with and without TLS
//! and passwords. `failovers/` has failovers under load.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::time::timeout;

use super::redis_tls::{post, server_options, start};
use crate::http::feed;
use support::certificates::{Authority, Certificate, LOCAL};
use support::proxy::Proxy;
use support::redis::{RedisServer, Reply};
use support::sukkal::{Api, Sukkal};
use support::waiting::block_until;

/// Much longer than a failover takes.
const TIMEOUT: Duration = Duration::from_secs(30);
const MASTERS: [&str; 2] = ["orders", "invoices"];
const REDIS_PASSWORD: &str = "password-of-redis";
const SENTINEL_PASSWORD: &str = "password-of-sentinels";
const WATCHER: &str = "watcher on >password-of-watcher allchannels -@all +sentinel|master \
                       +sentinel|get-master-addr-by-name";

/// Posts until the store can be used.
async fn post_at_last(api: &Api, body: &str) {
    timeout(TIMEOUT, async { while post(api, body).await != 201 {} }).await.expect("the master is found");
}

/// The certificates of Redis and of Sukkal.
struct Tls {
    authority: Authority,
    server: Certificate,
    client: Certificate,
}

impl Tls {
    fn new() -> Self {
        let authority = Authority::new();
        let (server, client) = (authority.issue_for("server", LOCAL), authority.issue_for("client", "DNS:sukkal"));
        Self { authority, server, client }
    }
}

/// Two masters, which one Sentinel watches. All of them need passwords, and TLS if there is any.
struct Secured {
    masters: [RedisServer; 2],
    replica: RedisServer,
    sentinel: RedisServer,
    tls: Option<Tls>,
}

impl Secured {
    fn start(tls: Option<Tls>) -> Self {
        let authority = tls.as_ref().map(|tls| tls.authority.file());
        let files = tls.as_ref().zip(authority.as_ref()).map(|(tls, file)| server_options(&tls.server, file));
        let common = files.as_ref().map_or(&[][..], |files| &files[..]);
        let of_redis = [common, &[("requirepass", REDIS_PASSWORD), ("masterauth", REDIS_PASSWORD)]].concat();
        let masters = MASTERS.map(|_| RedisServer::start_with(&of_redis));
        let replica_of = format!("127.0.0.1 {}", masters[0].port());
        let replica = RedisServer::start_with(&[&of_redis[..], &[("replicaof", &replica_of)]].concat());
        let auth = MASTERS.map(|name| format!("auth-pass {name} {REDIS_PASSWORD}"));
        let second = format!("monitor {} 127.0.0.1 {} 1", MASTERS[1], masters[1].port());
        let of_sentinel = [
            ("requirepass", SENTINEL_PASSWORD),
            ("user", WATCHER),
            ("sentinel", &second),
            ("sentinel", &auth[0]),
            ("sentinel", &auth[1]),
        ];
        let sentinel = RedisServer::start_sentinel_with(MASTERS[0], &masters[0], &[common, &of_sentinel[..]].concat());
        Self { masters, replica, sentinel, tls }
    }

    /// Starts a service over the master with this name. Sentinels get the credentials in the query.
    fn serve(&self, name: &str, query: &str) -> Sukkal {
        let scheme = if self.tls.is_some() { "rediss-sentinel" } else { "redis-sentinel" };
        let url = format!("{scheme}://:{REDIS_PASSWORD}@127.0.0.1:{}/{name}{query}", self.sentinel.port());
        let authority = self.tls.as_ref().map(|tls| tls.authority.file());
        start(&url, authority.as_deref(), self.tls.as_ref().map(|tls| &tls.client))
    }
}

#[tokio::test]
async fn each_service_uses_the_master_that_its_uri_names_with_the_credentials_of_both() {
    for tls in [None, Some(Tls::new())] {
        let secured = Secured::start(tls);
        let queries = [
            format!("?sentinel_password={SENTINEL_PASSWORD}"),
            "?sentinel_username=watcher&sentinel_password=password-of-watcher".to_owned(),
        ];
        for (name, query) in MASTERS.iter().zip(&queries) {
            post_at_last(&secured.serve(name, query).project(name), "here").await;
        }

        for (name, master) in MASTERS.iter().zip(&secured.masters) {
            for project in MASTERS {
                let exists = master.command(&["EXISTS", &format!("sukkal:{{{project}/feed}}:queue")]);
                assert_eq!(exists, Reply::Int(i64::from(project == *name)), "{project} at the master {name}");
            }
        }
        let refused = secured.serve(MASTERS[0], "");
        assert!(refused.logged("?sentinel_password=").await[0].contains("WRONGPASS"));
    }
}

#[tokio::test]
async fn a_failover_with_tls_and_passwords_is_followed() {
    let secured = Secured::start(Some(Tls::new()));
    let sukkal = secured.serve(MASTERS[0], &format!("?sentinel_password={SENTINEL_PASSWORD}"));
    let api = sukkal.project("p");
    post_at_last(&api, "before").await;
    block_until("the Sentinel knows the replica", || {
        let known = secured.sentinel.command(&["INFO", "sentinel"]);
        known.as_text().contains("slaves=1")
    });
    block_until("the replica has the post", || secured.masters[0].command(&["WAIT", "1", "1000"]).as_int() == 1);

    secured.masters[0].kill();
    block_until("the replica is promoted", || {
        // Redis closes all client connections when it becomes a master.
        let info = secured.replica.try_command(&["INFO", "replication"]);
        info.is_ok_and(|info| info.as_text().contains("role:master"))
    });
    post_at_last(&api, "after").await;

    let mut bodies = feed(&api, "feed", "").await;
    // A post with the response 503 may have been executed.
    bodies.dedup();
    assert_eq!(bodies, ["before", "after"]);
}

#[tokio::test]
async fn the_known_master_stays_in_use_while_no_sentinel_answers() {
    let master = RedisServer::start();
    let sentinel = RedisServer::start_sentinel("main", &master);
    let sukkal = Sukkal::start(&format!("redis-sentinel://127.0.0.1:{}/main", sentinel.port()));
    let api = sukkal.project("p");
    post_at_last(&api, "before").await;

    sentinel.kill();
    sukkal.logged("a Sentinel cannot be used").await;
    assert_eq!(post(&api, "after").await, 201);
    sentinel.restart();
    sukkal.logged("the Sentinel can be used").await;

    assert_eq!(post(&api, "at last").await, 201);
}

/// A proxy or a name that leads to the master does so without Sentinels.
#[tokio::test]
async fn connections_to_a_master_that_has_become_a_replica_are_replaced() {
    let [old, new] = [(); 2].map(|()| RedisServer::start());
    let proxy = Proxy::start(SocketAddr::from((Ipv4Addr::LOCALHOST, old.port())));
    let sukkal = Sukkal::start(&proxy.url("redis"));
    let api = sukkal.project("p");
    post_at_last(&api, "before").await;
    new.command(&["REPLICAOF", "127.0.0.1", &old.port().to_string()]);
    block_until("the replica is in step", || {
        new.command(&["INFO", "replication"]).as_text().contains("master_link_status:up")
    });

    new.command(&["REPLICAOF", "NO", "ONE"]);
    proxy.lead_to(SocketAddr::from((Ipv4Addr::LOCALHOST, new.port())));
    old.command(&["REPLICAOF", "127.0.0.1", &new.port().to_string()]);

    post_at_last(&api, "after").await;
    assert_eq!(new.command(&["HLEN", "sukkal:{p/feed}:messages"]), Reply::Int(2));
}
