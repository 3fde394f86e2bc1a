//! `client_timeout` and `idle_timeout`: the server disconnects a client that pauses for too long
//! while it sends a request, or between two requests. `bad_input` tests those that stop sending.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::*;
use support::waiting::block_until;

/// Much longer than the `client_timeout` of the server.
const TIMEOUT: Duration = Duration::from_secs(20);

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_idle_timeout() {
    let timeouts = [("SUKKAL_CLIENT_TIMEOUT", "1"), ("SUKKAL_IDLE_TIMEOUT", "3")];
    let start = Instant::now();

    let server = Server::start(&timeouts);
    let mut stream = TcpStream::connect(server.sukkal.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _reset = timeout(TIMEOUT, stream.read_to_end(&mut response)).await.expect("the server closes the connection");

    assert!(response.starts_with(b"HTTP/1.1 204 "), "{response:?}");
    assert!(start.elapsed() >= Duration::from_secs(3), "it was closed after {:?}", start.elapsed());
}

#[tokio::test]
async fn the_head_of_a_further_request_times_out() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "3"), ("SUKKAL_IDLE_TIMEOUT", "600")]);
    let mut stream = TcpStream::connect(server.sukkal.address()).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    assert!(stream.read(&mut [0; 1_000]).await.unwrap() > 0, "the first request is answered");

    stream.write_all(b"GET /heal").await.unwrap();

    let _reset = timeout(TIMEOUT, stream.read_to_end(&mut Vec::new())).await.expect("the server closes the connection");
}

#[tokio::test]
async fn a_body_that_arrives_too_slowly_is_408() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "3")]);
    let head = "POST /v2/queues/q/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Project-ID: p";
    let client = support::sukkal::CLIENT;
    let mut stream = TcpStream::connect(server.sukkal.url("").replace("http://", "")).await.unwrap();
    stream
        .write_all(format!("{head}\r\nClient-ID: {client}\r\nContent-Length: 1000\r\n\r\n").as_bytes())
        .await
        .unwrap();

    let (mut answer, mut writer) = stream.split();
    let drip = async {
        while writer.write_all(b" ").await.is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    };
    let mut response = Vec::new();
    tokio::select! {
        read = timeout(TIMEOUT, answer.read_to_end(&mut response)) => { let _reset = read.expect("the server closes the connection"); }
        () = drip => {}
    }

    let response = String::from_utf8(response).unwrap();
    assert!(response.starts_with("HTTP/1.1 408 "), "{response}");
}

#[tokio::test]
async fn a_response_that_is_not_read_is_aborted() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "1"), ("SUKKAL_LOG__FILTER", "debug")]);
    let api = server.sukkal.project(&format!("project-{}", Uuid::new_v4()));
    let mut ids = Vec::new();
    for _ in 0..20 {
        let large = json!({ "messages": [{ "body": "x".repeat(250_000) }] });
        let posted: Value = api.post("/v2/queues/q/messages", &large).send().await.unwrap().json().await.unwrap();
        ids.push(posted["resources"][0].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
    }
    let request = api.get(&format!("/v2/queues/q/messages?ids={}", ids.join(","))).build().unwrap();
    let headers = request.headers().iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
    let path = format!("{}?{}", request.url().path(), request.url().query().unwrap());
    let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{}\r\n", headers.collect::<String>());
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(server.sukkal.url("").replace("http://", "").parse().unwrap()).await.unwrap();

    stream.write_all(head.as_bytes()).await.unwrap();

    let given_up = |line: &String| line.contains("connection ended early");
    block_until("the server aborts the response", || server.sukkal.log().iter().any(given_up));
}
