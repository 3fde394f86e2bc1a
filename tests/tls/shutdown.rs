//! A server that stops completes the requests of its HTTP/2 connections, and serves new
//! connections.

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use super::Server;
use super::client::{Http2, connector, head};
use support::waiting::until;

#[tokio::test]
async fn a_server_that_stops_completes_requests_and_accepts_no_more() {
    let mut server = Server::start(&[]);
    let mut http = Http2::open(&server).await;
    let waiting = http.wait_for_message(&server, "q").await;
    let (posted, mut post) = http.begin("POST", "/v2/queues/q2/messages", false).await.unwrap();
    let body = json!({ "messages": [{ "body": "one" }] }).to_string();
    let (first, second) = body.split_at(10);
    post.send_data(Bytes::copy_from_slice(first.as_bytes()), false).unwrap();
    // A server that responds to a later request has accepted the post.
    let later = http.send("GET", "/v2/queues", "").await;
    assert_eq!(head(later).await.status(), StatusCode::OK);

    server.sukkal.terminate();

    assert_eq!(head(waiting).await.status(), StatusCode::OK);
    // After GOAWAY, the client starts no new request.
    let is_refused = async || match http.begin("GET", "/v2/queues", true).await {
        Ok((response, _)) => response.await.is_err(),
        Err(_) => true,
    };
    until("requests are refused", is_refused).await;
    post.send_data(Bytes::copy_from_slice(second.as_bytes()), true).unwrap();
    assert_eq!(head(posted).await.status(), StatusCode::CREATED);
    http.closed().await.unwrap();
    let status = spawn_blocking(move || server.sukkal.wait()).await.unwrap();
    assert!(status.success());
}

/// A connection without a request is closed when it is a second old, so on a busy machine some
/// fail.
#[tokio::test]
async fn a_server_that_stops_serves_connections_whose_handshake_has_not_begun() {
    let server = Server::start(&[]);
    let mut streams = Vec::new();
    for _ in 0..10 {
        streams.push(TcpStream::connect(server.sukkal.address()).await.unwrap());
    }

    server.sukkal.terminate();
    server.sukkal.logged("draining").await;

    let connector = connector(&server.authority.file(), "http/1.1");
    let mut responses = Vec::new();
    for stream in streams {
        let name = "127.0.0.1".try_into().unwrap();
        let Ok(mut stream) = connector.connect(name, stream).await else { continue };
        let mut response = String::new();
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let _closed = stream.write_all(request).await;
        let _closed = stream.read_to_string(&mut response).await;
        responses.push(response);
    }
    assert!(responses.iter().any(|response| response.starts_with("HTTP/1.1 204 ")), "{responses:?}");
}
