//! Memory use with hostile clients: it stays within the configured limits, whatever clients send or
//! leave unread.

use serde_json::json;
use sukkal::descriptors::connections_max;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use support::memory::{peak_bytes, resident_bytes};
use support::waiting::in_time;

const CLIENTS: usize = 500;
const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;
/// Maximum memory per connection with its buffers, in bytes.
const PER_CONNECTION: usize = 160 * KIB;

/// Sends the same text over many connections and returns them, still open. A write may fail,
/// because the server may respond and stop reading before the end.
async fn send_from_each_client(server: &Server, text: &str) -> Vec<TcpStream> {
    assert_eq!(connections_max(2 * CLIENTS), 2 * CLIENTS, "the limit on open files is too low");
    let mut connections = Vec::new();
    for _ in 0..CLIENTS {
        let mut stream = TcpStream::connect(server.sukkal.url("").replace("http://", "")).await.unwrap();
        let _hung_up = stream.write_all(text.as_bytes()).await;
        connections.push(stream);
    }
    connections
}

fn head(target: &str) -> String {
    let client = support::sukkal::CLIENT;
    format!("{target} HTTP/1.1\r\nHost: localhost\r\nX-Project-ID: p\r\nClient-ID: {client}\r\n")
}

#[tokio::test]
async fn endless_request_heads_use_little_memory() {
    let server = Server::start(&[]);
    let before = resident_bytes(server.sukkal.id());

    let _open =
        send_from_each_client(&server, &format!("{}X-Long: {}", head("GET /v2/queues"), "x".repeat(400 * KIB))).await;

    let grown = resident_bytes(server.sukkal.id()).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION, "{} KiB for each client", grown / CLIENTS / KIB);
}

#[tokio::test]
async fn bodies_of_unknown_routes_use_little_memory() {
    let server = Server::start(&[]);
    let before = resident_bytes(server.sukkal.id());

    let half = format!("{}Content-Length: {}\r\n\r\n{}", head("POST /nope"), MIB, "x".repeat(250 * KIB));
    let _open = send_from_each_client(&server, &half).await;

    let grown = resident_bytes(server.sukkal.id()).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION, "{} KiB for each client", grown / CLIENTS / KIB);
}

#[tokio::test]
async fn unread_event_streams_use_little_memory() {
    let server = Arc::new(Server::start(&[]));
    let project = Project::of(&server, "p");
    let queue = format!("/v2/queues/{}/messages", Uuid::new_v4());
    let follow = format!("{}Accept: text/event-stream\r\n\r\n", head(&format!("GET {queue}?echo=true")));
    let mut streams = send_from_each_client(&server, &follow).await;
    for stream in &mut streams {
        let mut greeting = [0; 64];
        assert!(in_time("the stream begins", stream.read(&mut greeting)).await.unwrap() > 0);
    }
    let before = resident_bytes(server.sukkal.id());

    for _ in 0..10 {
        let posted = project.api.post(&queue, &json!({ "messages": [{ "body": "x".repeat(250 * KIB) }] }));
        assert_eq!(posted.send().await.unwrap().status(), 201);
    }
    // Once this stream has received all messages, the others have been sent as much as they accept.
    let response = project.api.get(&format!("{queue}?echo=true")).header("Accept", "text/event-stream").send();
    let mut events = response.await.unwrap();
    let mut bytes = 0;
    while bytes < 10 * 250 * KIB {
        bytes += in_time("an event arrives", events.chunk()).await.unwrap().unwrap().len();
    }

    let grown = resident_bytes(server.sukkal.id()).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION + 64 * MIB, "{} KiB for each client", grown / CLIENTS / KIB);
}

#[tokio::test]
async fn incomplete_bodies_of_one_project_do_not_block_other_projects() {
    // A slow machine may need more time for the bodies than a client may pause.
    let server = Arc::new(Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "600")]));
    let part = "x".repeat(250 * KIB);
    let half = format!("{}Content-Length: {}\r\n\r\n{part}", head("POST /v2/queues/q/messages"), 255 * KIB);

    // The bodies exceed the share of one project, which is half of the budget of 96 MiB.
    let mut open = send_from_each_client(&server, &half).await;
    open.extend(send_from_each_client(&server, &half).await);

    let other = Project::of(&server, "other");
    let posted = other.api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": part }] })).send().await;
    assert_eq!(posted.unwrap().status(), 201);
    // The server responds when the client has sent everything, so that the client can read the
    // response. Which bodies are refused depends on the order in which the server has read them.
    let mut is_refused = false;
    while !is_refused {
        let mut stream = open.pop().expect("a body is refused");
        stream.write_all("x".repeat(5 * KIB).as_bytes()).await.unwrap();
        let mut status = [0; 12];
        in_time("the server responds", stream.read_exact(&mut status)).await.unwrap();
        is_refused = &status == b"HTTP/1.1 503";
        assert!(is_refused || &status == b"HTTP/1.1 400", "{}", status.escape_ascii());
    }
}

/// A list of the parts of a body would take many times their size.
#[tokio::test]
async fn bodies_in_small_parts_use_little_memory() {
    const SENDERS: usize = 6;
    const PARTS: usize = 50_000;
    let server = Arc::new(Server::start(&[]));
    let chunks = format!(
        "{}Transfer-Encoding: chunked\r\n\r\n{}",
        head("POST /v2/queues/q/messages"),
        "1\r\n \r\n".repeat(PARTS)
    );
    // What the first request needs, such as the connection to the store, is there before.
    let first = Project::of(&server, "p").api.post("/v2/queues/q/messages", &json!({ "messages": [{ "body": 1 }] }));
    assert_eq!(first.send().await.unwrap().status(), 201);
    let before = resident_bytes(server.sukkal.id());

    let senders = (0..SENDERS).map(|_| async {
        let mut stream = TcpStream::connect(server.sukkal.address()).await.unwrap();
        stream.write_all(chunks.as_bytes()).await.unwrap();
        stream
    });
    let mut senders = in_time("all parts are sent", futures::future::join_all(senders)).await;
    for sender in &mut senders {
        sender.write_all(b"0\r\n\r\n").await.unwrap();
    }
    for sender in &mut senders {
        let mut status = [0; 12];
        in_time("the server responds", sender.read_exact(&mut status)).await.unwrap();
        assert_eq!(&status, b"HTTP/1.1 400");
    }

    let grown = peak_bytes(server.sukkal.id()).saturating_sub(before);
    assert!(grown <= SENDERS * (PER_CONNECTION + 12 * PARTS), "{} KiB for each client", grown / SENDERS / KIB);
}

/// As trees, the values of such a body take a hundred times its size.
#[tokio::test]
async fn bodies_with_many_values_use_little_memory() {
    let server = Arc::new(Server::start(&[]));
    let values = format!("[{}]", vec!["[0]"; 15_000].join(","));
    let patch = format!(r#"[{{"op": "add", "path": "/metadata/k", "value": {values}}}]"#);
    let subscription = format!(r#"{{"subscriber": "http://192.0.2.1", "options": {{"k": {values}}}}}"#);
    // Other tests use the project and its queues too.
    let queue = format!("/v2/queues/{}", Uuid::new_v4());
    assert_eq!(Project::of(&server, "p").put(&queue).send().await.unwrap().status(), 201);
    let before = resident_bytes(server.sukkal.id());

    for (target, body) in [
        ("PUT /v2/queues/new", format!(r#"{{"k": {values}}}"#)),
        ("PUT /v2/queues/new", format!(r#"{{"k": {values}, "k": {{"l": {{}}, "l": {{}}}}, "_shards": "x"}}"#)),
        (&*format!("PATCH {queue}"), patch),
        (&*format!("POST {queue}/subscriptions"), subscription),
    ] {
        let length = body.len();
        let request = format!("{}Content-Type: {PATCH_TYPE}\r\nContent-Length: {length}\r\n\r\n{body}", head(target));
        let mut open = send_from_each_client(&server, &request).await;
        for stream in &mut open {
            let mut status = [0; 12];
            in_time("the server responds", stream.read_exact(&mut status)).await.unwrap();
            assert_eq!(&status, b"HTTP/1.1 400", "{target}");
        }
    }

    let grown = peak_bytes(server.sukkal.id()).saturating_sub(before);
    assert!(grown <= CLIENTS * PER_CONNECTION, "{} KiB for each client", grown / CLIENTS / KIB);
}
