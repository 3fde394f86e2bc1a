//! Clients without a credential do not keep known ones from being served.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

use super::{STRANGER, behind_a_proxy};
use support::waiting::in_time;

/// Opens a connection that does not come from the trusted proxy.
async fn connect_as_stranger(address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(STRANGER, 0)).unwrap();
    socket.connect(address).await.unwrap()
}

/// Sends a request whose body never ends, and returns the response. The connection stays open.
async fn request_without_end(stream: &mut TcpStream) -> String {
    send(stream, "POST /v2/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n{").await
}

/// Sends a request, and returns the beginning of the response.
async fn send(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = vec![0; 2048];
    let bytes = stream.read(&mut response).await.unwrap_or_default();
    String::from_utf8_lossy(&response[..bytes]).into_owned()
}

/// A client that were answered only after its body would hold its connection for two minutes.
#[tokio::test]
async fn an_unknown_client_is_answered_before_its_body_is_read() {
    let sukkal = behind_a_proxy(&[]);
    let mut stream = connect_as_stranger(sukkal.address().parse().unwrap()).await;

    let response = in_time("the response", request_without_end(&mut stream)).await;

    assert!(response.starts_with("HTTP/1.1 401 ") && response.contains("connection: close\r\n"), "{response}");
    stream.write_all(&vec![b'x'; 100_000]).await.expect("the client may still send");
    let mut rest = Vec::new();
    in_time("the connection ends", stream.read_to_end(&mut rest)).await.expect("the client reads the whole response");
    assert!(response.contains("description") || String::from_utf8_lossy(&rest).contains("description"));
}

/// The signature of a request for a WebSocket is not verified.
#[tokio::test]
async fn a_signature_that_is_not_verified_makes_no_client_known() {
    let sukkal = behind_a_proxy(&[]);
    let mut stream = connect_as_stranger(sukkal.address().parse().unwrap()).await;
    let upgrade = "GET /v2/websocket HTTP/1.1\r\nHost: localhost\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
                   Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                   URL-Signature: x\r\n\r\n";
    let refused = in_time("the refusal", send(&mut stream, upgrade)).await;
    assert!(refused.starts_with("HTTP/1.1 4"), "{refused}");

    let response = in_time("the response", request_without_end(&mut stream)).await;

    assert!(response.contains("connection: close\r\n"), "{response}");
}

#[tokio::test]
async fn unfinished_requests_of_unknown_clients_do_not_keep_known_ones_out() {
    let sukkal = behind_a_proxy(&[("SUKKAL_MAX_CONNECTIONS", "8")]);
    let address = sukkal.address().parse().unwrap();
    for _ in 0..16 {
        tokio::spawn(async move {
            loop {
                let mut stream = connect_as_stranger(address).await;
                request_without_end(&mut stream).await;
                let _end = stream.read_to_end(&mut Vec::new()).await;
            }
        });
    }
    let mut waiting = connect_as_stranger(address).await;
    in_time("the clients have all connections", request_without_end(&mut waiting)).await;

    for _ in 0..3 {
        // Each client opens a connection.
        let answer = sukkal.project("p").get("/v2/queues").send();
        assert_eq!(in_time("a known client is served", answer).await.unwrap().status(), 200);
    }
}
