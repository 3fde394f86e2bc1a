//! The subject of a client certificate reaches the requests of its connection.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use sukkal::api::{self, ClientCertificates, Listener, ServerLimits, Tls, TlsFiles};
use sukkal::auth::ClientCertificate;
use sukkal::observability::metrics::ConnectionCounts;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;

use support::certificates::Authority;
use support::redis::child_command;

async fn subject(request: Request) -> String {
    let certificate = request.extensions().get::<ClientCertificate>();
    certificate.map_or_else(|| "none".to_owned(), |certificate| certificate.subject.to_string())
}

#[tokio::test]
async fn requests_have_the_subject_of_the_client_certificate() {
    let authority = Arc::new(Authority::new());
    let server = authority.issue("server", "/CN=server");
    let client = authority.issue("client", "/O=Acme, Inc./OU=proxies/CN=proxy-1");
    let files = TlsFiles {
        certificate: server.certificate,
        key: server.key,
        client_ca: Some(authority.file()),
        client_certificates: ClientCertificates::Optional,
    };
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let listener = Listener { socket, tls: Some(Tls::open(files).unwrap()) };
    let timeout = Duration::from_secs(20);
    let limits = ServerLimits { head_timeout: timeout, idle_timeout: timeout, connections_max: 10 };
    let router = Router::new().route("/", get(subject));
    tokio::spawn(async move {
        api::serve(listener, router, limits, ConnectionCounts::default(), std::future::pending()).await.await;
    });

    for (protocol, certificate, expected) in [
        ("--http2", Some(&client), "CN=proxy-1,OU=proxies,O=Acme\\, Inc."),
        ("--http1.1", Some(&client), "CN=proxy-1,OU=proxies,O=Acme\\, Inc."),
        ("--http2", None, "none"),
    ] {
        let mut curl = child_command("curl");
        curl.args(["--silent", protocol, &format!("https://{address}/"), "--cacert"]).arg(authority.file());
        if let Some(certificate) = certificate {
            curl.arg("--cert").arg(&certificate.certificate).arg("--key").arg(&certificate.key);
        }
        let output = spawn_blocking(move || curl.output().expect("curl is installed")).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{protocol}");
    }
}
