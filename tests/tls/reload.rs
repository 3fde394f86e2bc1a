//! Certificates are replaced without a restart.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Server;
use super::client::{Http2, TIMEOUT, connect, head};
use support::waiting::until;

const CLIENTS: usize = 4;

/// Returns the certificate with which the server identifies itself to a new connection.
async fn shown_certificate(server: &Server) -> Vec<u8> {
    let stream = connect(server, "http/1.1").await;
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_replaced_under_load_without_a_failed_request() {
    let server = Arc::new(Server::start(&[]));
    let first = shown_certificate(&server).await;
    let (stop, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let (server, stop, requests) = (server.clone(), stop.clone(), requests.clone());
        clients.spawn(async move {
            let mut http = Http2::open(&server).await;
            while !stop.load(Ordering::SeqCst) {
                // Half of the clients open a connection for each request.
                if number % 2 == 0 {
                    http = Http2::open(&server).await;
                }
                let response = http.send("GET", "/healthz", "").await;
                assert_eq!(head(response).await.status(), 204);
                requests.fetch_add(1, Ordering::SeqCst);
            }
        });
    }

    let second = server.authority.issue("second", "/CN=second");
    server.certificate.replace_with(&second);
    until("the new certificate is shown", async || shown_certificate(&server).await != first).await;
    let after_reload = requests.load(Ordering::SeqCst);
    until("requests go on", async || requests.load(Ordering::SeqCst) > after_reload + CLIENTS * 5).await;

    stop.store(true, Ordering::SeqCst);
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
    let is_logged = || server.sukkal.log().iter().any(|line| line.contains("the TLS certificate has been reloaded"));
    until("the reload is logged", async || is_logged()).await;
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_does_not_replace_the_old_one() {
    let server = Server::start(&[]);
    let first = shown_certificate(&server).await;
    let other = server.authority.issue("other", "/CN=other");
    let key = fs::read_to_string(&other.key).unwrap();

    // The certificate and the key do not belong together.
    fs::copy(&other.key, &server.certificate.key).unwrap();

    let refused = || server.sukkal.log().iter().filter(|line| line.contains("the old one stays in use")).count();
    until("the key is refused", async || refused() == 1).await;
    assert_eq!(shown_certificate(&server).await, first);
    fs::write(&server.certificate.certificate, &key).unwrap();
    until("the certificate is refused", async || refused() == 2).await;
    assert_eq!(shown_certificate(&server).await, first);
    server.certificate.replace_with(&other);
    until("the new certificate is shown", async || shown_certificate(&server).await != first).await;
    let secret = key.lines().nth(1).unwrap();
    assert!(!server.sukkal.log().iter().any(|line| line.contains(secret)), "{:#?}", server.sukkal.log());
}

/// Nobody notices a connection that sends nothing, and it ends by itself.
#[tokio::test]
async fn handshakes_take_a_limited_time_and_do_not_delay_others() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "5")]);
    let mut unfinished = Vec::new();
    for number in 0..50 {
        let mut stream = tokio::net::TcpStream::connect(server.sukkal.address()).await.unwrap();
        // The first bytes of a handshake, or nothing.
        let bytes: &[u8] = if number % 2 == 0 { b"\x16\x03\x01\x02\x00\x01" } else { b"" };
        tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await.unwrap();
        unfinished.push(stream);
    }

    let mut http = Http2::open(&server).await;
    let response = http.send("GET", "/healthz", "").await;

    assert_eq!(head(response).await.status(), 204);
    for mut stream in unfinished {
        let closed = timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await;
        let _reset = closed.expect("the server closes the connection");
    }
}
