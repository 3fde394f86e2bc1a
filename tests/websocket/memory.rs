//! The memory that clients make the process hold: their requests, and the replies that they do not
//! read.

use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpSocket;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;

use super::{PATH, notification, open, post, start};
use crate::http::answered;
use support::exposition::Exposition;
use support::memory::{peak_bytes, resident_bytes};
use support::socket::Socket;
use support::sukkal::{CLIENT, Sukkal};
use support::waiting::{in_time, until, until_some};

const KIB: usize = 1024;
const LARGE: usize = 250_000;
/// Number of pages of half a megabyte that a client requests and does not read.
const LISTS: usize = 20;

fn request(action: &str, body: &Value) -> Message {
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "p" });
    Message::text(json!({ "action": action, "headers": headers, "body": body }).to_string())
}

fn list() -> Message {
    request("message_list", &json!({ "queue_name": "q", "echo": true }))
}

/// Opens a WebSocket whose operating system accepts few bytes that nobody reads.
async fn open_narrow(sukkal: &Sukkal) -> tokio_tungstenite::WebSocketStream<tokio::net::TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let stream = socket.connect(sukkal.address().parse().unwrap()).await.unwrap();
    client_async(format!("ws://{}{PATH}", sukkal.address()), stream).await.unwrap().0
}

/// Requests more than the buffers of the operating system hold, which are up to some megabytes.
async fn request_more_than_fits(socket: &mut tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>) {
    for _ in 0..LISTS {
        socket.send(list()).await.unwrap();
    }
}

/// Posts two messages whose page is as large as a page can be.
async fn post_large(socket: &mut Socket) {
    for _ in 0..2 {
        post(socket, "q", &[json!("x".repeat(LARGE))]).await;
    }
}

/// A client that has not authenticated gets short replies to requests of limited size.
#[tokio::test]
async fn an_unknown_client_can_send_little_and_gets_short_replies() {
    let sukkal = start(&[("SUKKAL_AUTH__STRATEGIES", "tokens"), ("SUKKAL_POLICY__PRESET", "roles")]);
    let mut socket = open(&sukkal).await;
    let body = json!({ "x": "y".repeat(5_000) });

    for action in ["no_action", "queue_list", &"z".repeat(10_000)] {
        socket.stream.send(request(action, &body)).await.unwrap();
        let reply = in_time("the reply", socket.stream.next()).await.unwrap().unwrap();
        assert!(reply.len() < 512, "{reply}");
    }
    socket.stream.send(request("queue_list", &json!({ "x": "y".repeat(17_000) }))).await.unwrap();
    let Some(Ok(Message::Close(Some(close)))) = in_time("the end", socket.stream.next()).await else {
        panic!("the connection stays open")
    };
    assert_eq!((u16::from(close.code), close.reason.as_str()), (1009, "The message is too large."));
}

/// What a client sends costs time, whatever it is.
#[tokio::test]
async fn an_unknown_client_can_send_little_in_all() {
    let sukkal = start(&[("SUKKAL_AUTH__STRATEGIES", "tokens"), ("SUKKAL_POLICY__PRESET", "roles")]);
    // An empty pong, and an empty part of a text that never ends.
    for frame in [[0x8a, 0x80, 0, 0, 0, 0], [0, 0x80, 0, 0, 0, 0]] {
        let mut socket = open(&sukkal).await;
        let first = [1, 0x80, 0, 0, 0, 0];
        let _closed = socket.stream.get_mut().write_all(&[&first[..], &frame.repeat(11_000)].concat()).await;

        assert_eq!(socket.close_code().await, Some(1008));
    }
    let metrics = Exposition::of(&sukkal.url("")).await;
    assert_eq!(metrics.value("sukkal_websockets_closed_total{code=\"1008\"}"), Some(2.0));
}

/// Each ping would leave an answer of the same length.
#[tokio::test]
async fn pings_of_a_client_that_does_not_read_take_no_memory() {
    let sukkal = start(&[]);
    let mut socket = open_narrow(&sukkal).await;
    let before = resident_bytes(sukkal.id());
    // A masked ping with a payload of 125 bytes.
    let ping = [&[0x89, 0xfd][..], &[0; 4 + 125]].concat();

    for _ in 0..200 {
        socket.get_mut().write_all(&ping.repeat(1_000)).await.unwrap();
    }

    let grown = resident_bytes(sukkal.id()).saturating_sub(before) / KIB;
    assert!(grown < 8_000, "{grown} KB after 26 MB of pings");
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
    let before = resident_bytes(sukkal.id());
    for socket in &mut sockets {
        for (message, status) in [(list(), 200), (refused.clone(), 400)] {
            socket.stream.send(message).await.unwrap();
            assert_eq!(socket.document().await["headers"]["status"], status);
        }
    }
    // 300 replies have 150 MB, and as many requests have 75 MB.
    let grown = resident_bytes(sukkal.id()).saturating_sub(before) / KIB;
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
    in_time("the service reads what it replies to", async { socket.stream.flush().await.unwrap() }).await;
    for status in [200, 201, 200, 200, 201, 200] {
        assert_eq!(socket.document().await["headers"]["status"], status);
    }
}

/// Each control frame is gone when it was handled, so it needs no lasting share of the budget.
#[tokio::test]
async fn control_frames_hold_no_memory() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    // A project alone gets half of 96 MiB for requests. A frame has 131 bytes.
    let pong = [&[0x8a, 0x80 | 0x7d][..], &[0; 4 + 125]].concat();
    let many = pong.repeat(8_000);
    for _ in 0..60 {
        let written = socket.stream.get_mut().write_all(&many);
        in_time("the service reads pongs", written).await.expect("the connection is open");
    }
    assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
}

#[tokio::test]
async fn a_request_is_in_progress_until_its_reply_is_read() {
    let sukkal = start(&[("SUKKAL_WEBSOCKET__MAX_REQUESTS_PER_PROJECT", "1")]);
    let mut socket = open(&sukkal).await;
    post_large(&mut socket).await;
    let mut unread = open_narrow(&sukkal).await;
    request_more_than_fits(&mut unread).await;

    let mut status = async || socket.ask("queue_list", json!({})).await.0;
    until("the request is in progress", async || status().await == 429).await;
    for _ in 0..LISTS {
        let page = in_time("a page arrives", unread.next()).await;
        assert!(page.unwrap().unwrap().len() > 2 * LARGE);
    }
    until("the request is not in progress any more", async || status().await == 200).await;
}

#[tokio::test]
async fn replies_that_are_not_read_have_a_memory_budget() {
    // A project has half of 64 MiB. A request takes 4.5 MiB of it until the size of its reply is
    // known.
    let sukkal = start(&[("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "4194304")]);
    let mut socket = open(&sukkal).await;
    post(&mut socket, "q", &[json!("x".repeat(4_150_000))]).await;
    let mut unread = Vec::new();
    for _ in 0..32 {
        let mut next = open_narrow(&sukkal).await;
        request_more_than_fits(&mut next).await;
        unread.push(next);
    }
    let refusal = until_some("the memory is used up", async || {
        let reply = socket.ask("message_list", json!({ "queue_name": "q", "limit": 1 })).await;
        (reply.0 != 200).then_some(reply)
    })
    .await;

    let reason = "Replies that clients do not read use all the memory for replies. Please try again in a few seconds.";
    assert_eq!((refusal.0, &refusal.1["exception"]), (503, &json!(reason)));
    assert_eq!(socket.ask("queue_get", json!({ "queue_name": "q" })).await.0, 200, "it returns no page");
    drop(unread);
    until("the memory is free again", async || socket.ask("message_list", json!({ "queue_name": "q" })).await.0 == 200)
        .await;
}

#[tokio::test]
async fn options_of_subscriptions_have_a_memory_budget() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let subscription = |number: u32| json!({ "queue_name": format!("q{number}"), "options": { "match": { "kind": "x".repeat(60_000) } } });
    let before = resident_bytes(sukkal.id());
    let (count, refusal) = {
        let mut count = 0;
        loop {
            let reply = socket.ask("subscription_create", subscription(count)).await;
            if reply.0 != 201 {
                break (count, reply);
            }
            count += 1;
            assert!(count < 1_000, "all options are kept");
        }
    };

    // A project has half of 32 MiB, and the options count twice.
    assert_eq!(count, (16 << 20) / (2 * 60_016));
    let reason = "the options have 60016 bytes, but those of other subscriptions over WebSockets use the memory; send \
                  smaller options, or end other subscriptions";
    assert_eq!((refusal.0, &refusal.1["exception"]), (400, &json!(reason)), "{}", refusal.1);
    let grown = resident_bytes(sukkal.id()).saturating_sub(before) / KIB;
    assert!(grown < 100_000, "{grown} kB for {count} subscriptions");
    socket.subscribe(json!({ "queue_name": "small" })).await;
    let mut other = Socket::open(&sukkal.url(PATH), "other").await;
    other.subscribe(subscription(0)).await;
    drop(socket);
    let mut next = open(&sukkal).await;
    until("the memory is free again", async || next.ask("subscription_create", subscription(0)).await.0 == 201).await;
}

#[tokio::test]
async fn a_body_is_compared_with_the_option_match_without_a_tree() {
    let sukkal = start(&[("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "4194304")]);
    let api = sukkal.project("p");
    let mut body = json!({ "kind": "other", "many": vec![0; 1_900_000] });
    for kind in ["other", "wanted"] {
        body["kind"] = json!(kind);
        let messages = json!({ "messages": [{ "body": body, "ttl": 60 }] });
        answered(api.post("/v2/queues/q/messages", &messages), 201).await;
    }
    let before = peak_bytes(sukkal.id());
    let mut socket = open(&sukkal).await;

    let options = json!({ "match": { "kind": "wanted" } });
    let since = "1970-01-01T00:00:00Z";
    socket.subscribe(json!({ "queue_name": "q", "options": options, "since": since })).await;

    assert_eq!(socket.document().await, notification("q", &body));
    // A tree of these values has at least 60 MB.
    let grown = peak_bytes(sukkal.id()).saturating_sub(before) / KIB;
    assert!(grown < 32_000, "the comparison has taken {grown} kB");
}

/// Lists and headers become trees, which take up to a hundred times the memory of the text.
/// Messages do not.
#[tokio::test]
async fn the_values_of_a_request_are_limited_besides_its_messages() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    let many = vec![json!([]); 80_000];
    post(&mut socket, "q", &[json!(many)]).await;
    let ids = json!({ "queue_name": "q", "message_ids": many });
    let exception = "The request body has 80002 values at all levels; at most 4000 are allowed.";
    for (action, body) in [
        ("message_get_many", ids.clone()),
        ("queue_purge", json!({ "queue_name": "q", "resource_types": many })),
        ("subscription_create", json!({ "queue_name": "q", "options": { "a": many } })),
    ] {
        let (status, reply) = socket.ask(action, body).await;
        assert_eq!(status, 400, "{action}: {reply}");
        let shown = reply["exception"].as_str().unwrap().replace("80003", "80002");
        assert_eq!(shown, exception, "{action}");
    }
    let before = peak_bytes(sukkal.id());
    for action in ["queue_list", "nonsense"] {
        let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": many });
        assert_eq!(socket.ask_with(action, json!({}), headers).await.0, 400, "{action}");
    }
    assert_eq!(socket.ask("message_get_many", ids).await.0, 400);
    // A tree of these values has at least 2.5 MB.
    let grown = peak_bytes(sukkal.id()).saturating_sub(before) / KIB;
    assert!(grown < 2_000, "the requests have taken {grown} kB");
}
