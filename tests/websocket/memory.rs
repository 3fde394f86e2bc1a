//! The memory that clients make the process hold: their requests, and the replies that they do not read.

use std::time::Duration;

use futures::SinkExt;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::{open, post, start};
use crate::support::socket::Socket;
use crate::support::sukkal::CLIENT;

const PATIENCE: Duration = Duration::from_secs(30);
const LARGE: usize = 250_000;

fn request(action: &str, body: &Value) -> Message {
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "p" });
    Message::text(json!({ "action": action, "headers": headers, "body": body }).to_string())
}

fn list() -> Message {
    request("message_list", &json!({ "queue_name": "q", "echo": true }))
}

/// Posts two messages whose page is as large as a page can be.
async fn post_large(socket: &mut Socket) {
    for _ in 0..2 {
        post(socket, "q", &[json!("x".repeat(LARGE))]).await;
    }
}

/// Returns the memory of a process in kilobytes.
pub(super) fn resident_kilobytes(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_connection_keeps_no_memory_of_large_requests_and_replies() {
    let sukkal = start(&[]);
    let mut poster = open(&sukkal).await;
    post_large(&mut poster).await;
    let mut sockets = Vec::new();
    for _ in 0..300 {
        sockets.push(open(&sukkal).await);
    }
    let refused = request("nonsense", &json!({ "x": "x".repeat(LARGE) }));
    let before = resident_kilobytes(sukkal.id());
    for socket in &mut sockets {
        for (message, status) in [(list(), 200), (refused.clone(), 400)] {
            socket.stream.send(message).await.unwrap();
            assert_eq!(socket.document().await["headers"]["status"], status);
        }
    }
    // 300 replies have 150 MB, and as many requests have 75 MB.
    let grown = resident_kilobytes(sukkal.id()).saturating_sub(before);
    assert!(grown < 40_000, "300 idle connections hold {grown} kB");
}

#[tokio::test]
async fn requests_that_follow_each_other_at_once_are_all_handled() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    // A large request makes the buffers grow, and parts of the next ones arrive with its end.
    let posts = json!({ "queue_name": "q", "messages": [{ "body": "x".repeat(LARGE), "ttl": 60 }] });
    let small = request("queue_list", &json!({}));
    for message in [&small, &request("message_post", &posts), &small, &small, &request("message_post", &posts), &small]
    {
        socket.stream.feed(message.clone()).await.unwrap();
    }
    let written = timeout(PATIENCE, async { socket.stream.flush().await.unwrap() });
    written.await.expect("the service reads what it replies to");
    for status in [200, 201, 200, 200, 201, 200] {
        assert_eq!(socket.document().await["headers"]["status"], status);
    }
}
