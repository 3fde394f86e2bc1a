//! TLS to Redis: a server, a cluster and Sentinels that accept nothing else, certificates that are
//! not accepted, and certificates that are replaced.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tokio::time::timeout;

use super::requests::message;
use crate::http::{ok, send};
use support::certificates::{Authority, Certificate, LOCAL, text};
use support::cluster::RedisCluster;
use support::redis::RedisServer;
use support::sukkal::{Api, Sukkal};
use support::waiting::until;

const MASTER: &str = "mymaster";
const FEED: &str = "/v2/queues/feed/messages";
const UNUSABLE: &str = "the store cannot be used";
/// An operation is attempted for less than two seconds. The handshakes of all services load the
/// machine.
const REFUSED_WITHIN: Duration = Duration::from_secs(20);
const RECONNECTED_WITHIN: Duration = Duration::from_secs(30);

/// Servers on which TLS is all there is.
enum Redis {
    One(RedisServer),
    Cluster(RedisCluster),
    Sentinel { sentinel: RedisServer, _master: RedisServer },
}

impl Redis {
    /// Starts them with the certificate. Clients must have one that the authority has issued.
    fn all(files: &Certificate, authority: &Path) -> [Self; 3] {
        let options = server_options(files, authority);
        let master = RedisServer::start_with(&options);
        let sentinel = RedisServer::start_sentinel_with(MASTER, &master, &options);
        [
            Self::One(RedisServer::start_with(&options)),
            Self::Cluster(RedisCluster::start_with(&options)),
            Self::Sentinel { sentinel, _master: master },
        ]
    }

    fn url(&self) -> String {
        match self {
            Self::One(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Sentinel { sentinel, .. } => format!("rediss-sentinel://127.0.0.1:{}/{MASTER}", sentinel.port()),
        }
    }
}

pub(super) fn server_options<'a>(files: &'a Certificate, authority: &'a Path) -> [(&'static str, &'a str); 6] {
    [
        ("tls-cert-file", text(&files.certificate)),
        ("tls-key-file", text(&files.key)),
        ("tls-ca-cert-file", text(authority)),
        ("tls-auth-clients", "yes"),
        ("tls-replication", "yes"),
        ("tls-cluster", "yes"),
    ]
}

pub(super) fn start(store: &str, authority: Option<&Path>, own: Option<&Certificate>) -> Sukkal {
    let mut environment: Vec<_> = authority.map(|file| ("SUKKAL_REDIS__CA_FILE", text(file))).into_iter().collect();
    if let Some(own) = own {
        environment.push(("SUKKAL_REDIS__CERTIFICATE_FILE", text(&own.certificate)));
        environment.push(("SUKKAL_REDIS__KEY_FILE", text(&own.key)));
    }
    Sukkal::start_with(store, &environment)
}

/// Posts a message, and returns the status of the response.
pub(super) async fn post(api: &Api, body: &str) -> u16 {
    send(api.post(FEED, &message(body))).await.status
}

/// Posts until the store can be used.
async fn assert_posted(api: &Api) {
    let posted = async { while post(api, "x").await != 201 {} };
    timeout(RECONNECTED_WITHIN, posted).await.expect("the store can be used again");
}

fn errors(sukkal: &Sukkal) -> Vec<String> {
    sukkal.log().into_iter().filter(|line| line.contains("\"ERROR\"")).collect()
}

/// Asserts that the reason is logged once, and that requests get it in time.
async fn assert_refused(sukkal: &Sukkal, reason: &str) {
    let with_reason = || errors(sukkal).into_iter().filter(|line| line.contains(reason)).collect::<Vec<_>>();
    until(reason, async || !with_reason().is_empty()).await;
    let (api, began) = (sukkal.project("p"), Instant::now());
    let readiness = async { support::plain_http::get(sukkal.url("/readyz")).await.unwrap().text().await.unwrap() };

    let (status, ready) = tokio::join!(post(&api, "x"), readiness);

    assert_eq!(status, 503, "{reason}");
    assert!(began.elapsed() < REFUSED_WITHIN, "{reason}: {:?}", began.elapsed());
    let logged = with_reason();
    assert!(logged.len() == 1 && logged[0].contains(UNUSABLE), "{reason}: {:#?}", errors(sukkal));
    assert!(ready.contains(reason), "{reason}: {ready}");
}

#[tokio::test]
async fn a_server_a_cluster_and_sentinels_are_reached_with_tls() {
    let authority = Authority::new();
    let (server, client) = (authority.issue_for("server", LOCAL), authority.issue_for("client", "DNS:sukkal"));
    for redis in Redis::all(&server, &authority.file()) {
        let sukkal = start(&redis.url(), Some(&authority.file()), Some(&client));
        let api = sukkal.project("p");
        let waiting = ok(api.post("/v2/queues/feed/claims?wait=20", &json!({})));
        let posting = async {
            // Notifications use connections of their own.
            while post(&api, "hello").await != 201 {}
        };

        let (claim, ()) = tokio::join!(waiting, posting);

        assert_eq!(claim["messages"][0]["body"], "hello", "{}: {claim}", redis.url());
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_named_in_the_log_and_in_responses() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (server, client) = (authority.issue_for("server", LOCAL), authority.issue_for("client", "DNS:sukkal"));
    let stranger = other.issue_for("stranger", "DNS:sukkal");
    let (trusted, untrusted) = (authority.file(), other.file());

    let servers = Redis::all(&server, &trusted);
    let mut refused = Vec::new();
    for redis in &servers {
        let start = |authority, own| start(&redis.url(), authority, own);
        let unknown_authority = "the TLS certificate of 127.0.0.1 was issued by an authority that is not trusted";
        refused.push((start(Some(&untrusted), Some(&client)), unknown_authority));
        refused.push((start(None, Some(&client)), unknown_authority));
        refused.push((start(Some(&trusted), None), "the server requires a client certificate"));
        let unknown_client = "does not accept the client certificate (UnknownCA)";
        refused.push((start(Some(&trusted), Some(&stranger)), unknown_client));
    }

    let expired = authority.issue_expired("expired", LOCAL);
    let elsewhere = authority.issue_for("elsewhere", "DNS:redis.example,IP:192.0.2.1");
    let expired_client = authority.issue_expired("client-of-2020", "DNS:sukkal");
    let mut others = Vec::new();
    for (server, client, reason) in [
        (&expired, &client, "the TLS certificate of 127.0.0.1 has expired"),
        (&elsewhere, &client, "the TLS certificate of 127.0.0.1 is for another name: redis.example, 192.0.2.1"),
        (&server, &expired_client, "does not accept the client certificate (CertificateExpired)"),
    ] {
        let redis = RedisServer::start_with(&server_options(server, &trusted));
        refused.push((start(&redis.url(), Some(&trusted), Some(client)), reason));
        others.push(redis);
    }
    join_all(refused.iter().map(|(sukkal, reason)| assert_refused(sukkal, reason))).await;
}

#[tokio::test]
async fn certificates_can_be_replaced_without_a_restart() {
    let (old, new) = (Authority::new(), Authority::new());
    let files = old.issue_for("server", LOCAL);
    let own = old.issue_for("client", "DNS:sukkal");
    let trusted = old.file();
    let redis = RedisServer::start_with(&server_options(&files, &trusted));
    let sukkal = start(&redis.url(), Some(&trusted), Some(&own));
    let api = sukkal.project("p");
    assert_eq!(post(&api, "before").await, 201);

    for (certificate, file) in [(new.issue_for("server", LOCAL), &files), (new.issue_for("client", "DNS:sukkal"), &own)]
    {
        fs::copy(certificate.certificate, &file.certificate).unwrap();
        fs::copy(certificate.key, &file.key).unwrap();
    }
    fs::copy(new.file(), &trusted).unwrap();
    redis.restart();

    assert_posted(&api).await;
    // A file that cannot be used does not end the service.
    fs::write(&own.key, "").unwrap();
    redis.restart();
    assert_posted(&api).await;
    sukkal.logged("the certificate that was read before is used").await;
}
