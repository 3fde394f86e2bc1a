//! What hostile clients make the server hold: memory grows by what is allowed, whatever they send or do not read.

use std::fs;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::*;

const CLIENTS: usize = 500;
const PATIENCE: Duration = Duration::from_secs(20);
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// What each connection costs, with its buffers.
const PER_CONNECTION: usize = 160 * KIB;

/// How much memory the server has resident, in bytes.
fn resident_bytes(stage: &Stage) -> usize {
    let status = fs::read_to_string(format!("/proc/{}/status", stage.sukkal.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * KIB
}

/// Sends the same to the server over many connections, which stay open. Where the server hears no more, or has answered,
/// it has got enough.
async fn send(stage: &Stage, text: &str) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(stage.sukkal.url("").replace("http://", "")).await.unwrap();
        let _hung_up = stream.write_all(text.as_bytes()).await;
        connections.push(stream);
    }
    connections
}

fn head(target: &str) -> String {
    let client = crate::support::sukkal::CLIENT;
    format!("{target} HTTP/1.1\r\nHost: sukkal\r\nX-Project-ID: p\r\nClient-ID: {client}\r\n")
}

#[tokio::test]
async fn heads_that_never_end_cost_little_memory() {
    let stage = Stage::start(&[]);
    let before = resident_bytes(&stage);

    let _open = send(&stage, &format!("{}X-Long: {}", head("GET /v2/queues"), "x".repeat(400 * KIB))).await;

    let grown = resident_bytes(&stage).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION, "{} KiB for each client", grown / CLIENTS / KIB);
}

#[tokio::test]
async fn bodies_that_nobody_wants_cost_little_memory() {
    let stage = Stage::start(&[]);
    let before = resident_bytes(&stage);

    let half = format!("{}Content-Length: {}\r\n\r\n{}", head("POST /nope"), MIB, "x".repeat(250 * KIB));
    let _open = send(&stage, &half).await;

    let grown = resident_bytes(&stage).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION, "{} KiB for each client", grown / CLIENTS / KIB);
}

#[tokio::test]
async fn streams_that_are_not_read_cost_little_memory() {
    let stage = Arc::new(Stage::start(&[]));
    let tenant = Tenant::of(&stage, "p");
    let queue = format!("/v2/queues/{}/messages", Uuid::new_v4());
    let follow = format!("{}Accept: text/event-stream\r\n\r\n", head(&format!("GET {queue}?echo=true")));
    let mut streams = send(&stage, &follow).await;
    for stream in &mut streams {
        let mut greeting = [0; 64];
        assert!(stream.read(&mut greeting).await.unwrap() > 0);
    }
    let before = resident_bytes(&stage);

    for _ in 0..10 {
        let posted = tenant.api.post(&queue, &json!({ "messages": [{ "body": "x".repeat(250 * KIB) }] }));
        assert_eq!(posted.send().await.unwrap().status(), 201);
    }
    // A stream that is read gets them all, so the others have been served what they are served.
    let response = tenant.api.get(&format!("{queue}?echo=true")).header("Accept", "text/event-stream").send();
    let mut events = response.await.unwrap();
    let mut bytes = 0;
    while bytes < 10 * 250 * KIB {
        bytes += events.chunk().await.unwrap().unwrap().len();
    }

    let grown = resident_bytes(&stage).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION + 64 * MIB, "{} KiB for each client", grown / CLIENTS / KIB);
}

#[tokio::test]
async fn unfinished_bodies_of_one_project_leave_room_for_those_of_others() {
    let stage = Arc::new(Stage::start(&[]));
    let part = "x".repeat(250 * KIB);
    let half = format!("{}Content-Length: {}\r\n\r\n{part}", head("POST /v2/queues/q/messages"), 255 * KIB);

    // 140 of 256 MB, of which one project gets half.
    let mut open = send(&stage, &half).await;
    open.extend(send(&stage, &half).await);

    let other = Tenant::of(&stage, "other");
    let posted = other.api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": part }] })).send().await;
    assert_eq!(posted.unwrap().status(), 201);
    // It is answered when the client has sent everything, so that the client can read the answer.
    let mut last = open.pop().unwrap();
    last.write_all("x".repeat(5 * KIB).as_bytes()).await.unwrap();
    let mut status = [0; 12];
    timeout(PATIENCE, last.read_exact(&mut status)).await.expect("there is an answer").unwrap();
    assert_eq!(&status, b"HTTP/1.1 503");
}
