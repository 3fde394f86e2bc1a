//! `client_timeout`: a client that pauses for longer while it sends a request is hung up on.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use super::*;
use crate::support::redis::poll_until;

/// Much longer than the timeout that the server is started with.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the server says, until it hangs up, to a client that sends this and then nothing more.
async fn heard_after(sent: &str) -> String {
    let stage = Stage::start(&[("SUKKAL_CLIENT_TIMEOUT", "1")]);
    let address = stage.sukkal.url("").replace("http://", "");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();

    let mut heard = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut heard)).await.expect("the server hangs up").unwrap();
    heard
}

#[tokio::test]
async fn a_client_that_says_nothing_is_hung_up_on() {
    assert_eq!(heard_after("").await, "");
}

#[tokio::test]
async fn half_a_head_is_not_waited_for_without_end() {
    assert_eq!(heard_after("GET /healthz HTTP/1.1\r\nHo").await, "");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let heard = heard_after("GET /healthz HTTP/1.1\r\nHost: sukkal\r\n\r\n").await;

    assert!(heard.starts_with("HTTP/1.1 204 "), "{heard}");
}

#[tokio::test]
async fn half_a_body_is_answered_408() {
    let half = "POST /v2/queues/q/messages HTTP/1.1\r\nHost: sukkal\r\nX-Project-ID: p\r\nContent-Length: 100";
    let client = crate::support::sukkal::CLIENT;

    let heard = heard_after(&format!("{half}\r\nClient-ID: {client}\r\n\r\n{{\"mess")).await;

    assert!(heard.starts_with("HTTP/1.1 408 "), "{heard}");
    assert!(heard.contains("\"title\":\"Request timeout\""), "{heard}");
}

#[tokio::test]
async fn a_body_that_drips_is_answered_408() {
    let stage = Stage::start(&[("SUKKAL_CLIENT_TIMEOUT", "1")]);
    let head = "POST /v2/queues/q/messages HTTP/1.1\r\nHost: sukkal\r\nConnection: close\r\nX-Project-ID: p";
    let client = crate::support::sukkal::CLIENT;
    let mut stream = TcpStream::connect(stage.sukkal.url("").replace("http://", "")).await.unwrap();
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
    let mut said = String::new();
    tokio::select! {
        read = timeout(PATIENCE, answer.read_to_string(&mut said)) => { let _reset = read.expect("the server hangs up"); }
        () = drip => {}
    }

    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
}

#[tokio::test]
async fn an_answer_that_is_not_read_is_given_up() {
    let stage = Stage::start(&[("SUKKAL_CLIENT_TIMEOUT", "1"), ("SUKKAL_LOG__FILTER", "debug")]);
    let api = stage.sukkal.project(&format!("project-{}", Uuid::new_v4()));
    let mut ids = Vec::new();
    for _ in 0..20 {
        let large = json!({ "messages": [{ "body": "x".repeat(250_000) }] });
        let posted: Value = api.post("/v2/queues/q/messages", &large).send().await.unwrap().json().await.unwrap();
        ids.push(posted["resources"][0].as_str().unwrap().rsplit('/').next().unwrap().to_owned());
    }
    let request = api.get(&format!("/v2/queues/q/messages?ids={}", ids.join(","))).build().unwrap();
    let headers = request.headers().iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()));
    let path = format!("{}?{}", request.url().path(), request.url().query().unwrap());
    let head = format!("GET {path} HTTP/1.1\r\nHost: sukkal\r\n{}\r\n", headers.collect::<String>());
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut stream = socket.connect(stage.sukkal.url("").replace("http://", "").parse().unwrap()).await.unwrap();

    stream.write_all(head.as_bytes()).await.unwrap();

    let given_up = |line: &String| line.contains("connection ended early");
    poll_until("the server gives up", || stage.sukkal.log().iter().any(given_up));
}
