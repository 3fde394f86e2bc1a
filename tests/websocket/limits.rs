//! Limits of connections, and clients that are silent, do not read or send too much.

use std::time::Duration;

use futures::future::join_all;
use futures::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use super::authentication::{authenticate, start_with_keystone};
use super::{PATH, notification, open, post, start, start_here};
use crate::auth::stub_keystone::{StubKeystone, described};
use crate::http::answered;
use support::exposition::Exposition;
use support::memory::resident_bytes;
use support::redis::RedisServer;
use support::socket::Socket;
use support::sukkal::{CLIENT, Sukkal};
use support::waiting::{advance, in_time, until};

const KIB: usize = 1024;
/// Time after which something that should have happened has not.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_client_that_answers_no_ping_is_disconnected() {
    let sukkal = start(&[("SUKKAL_WEBSOCKET__PING_INTERVAL", "3")]);
    let mut answering = open(&sukkal).await;
    answering.subscribe(json!({ "queue_name": "q" })).await;
    let silent = open(&sukkal).await;

    // A stream whose bytes are read but not interpreted answers no ping.
    let mut raw = silent.stream.into_inner();
    let mut received = Vec::new();
    let ended = async { raw.read_to_end(&mut received).await };
    let waiting = async { answering.document().await };
    tokio::select! {
        _broken = in_time("the silent client is disconnected", ended) => {}
        document = waiting => panic!("{document}"),
    }
    assert_eq!(received, [0x89, 0], "one ping");
    assert_eq!(answering.ask("queue_get", json!({ "queue_name": "q" })).await.0, 200);
}

#[tokio::test]
async fn a_connection_without_requests_and_subscriptions_is_closed() {
    let url = start_here(&[("SUKKAL_WEBSOCKET__IDLE_TIMEOUT", "600")]).await;
    let [mut subscribed, mut idle] = [Socket::open(&url, "p").await, Socket::open(&url, "p").await];
    subscribed.subscribe(json!({ "queue_name": "q" })).await;

    advance(Duration::from_secs(300)).await;
    assert_eq!(idle.ask("queue_list", json!({})).await.0, 200);
    advance(Duration::from_secs(300)).await;
    assert_eq!(idle.ask("queue_list", json!({})).await.0, 200, "a request keeps it open");
    advance(Duration::from_secs(600)).await;
    assert_eq!(idle.close_code().await, Some(1000));
    assert_eq!(subscribed.ask("queue_list", json!({})).await.0, 200);
}

#[tokio::test]
async fn no_more_connections_are_opened_than_the_limit() {
    let sukkal = start(&[("SUKKAL_WEBSOCKET__MAX_CONNECTIONS", "2")]);
    let mut first = open(&sukkal).await;
    let second = open(&sukkal).await;
    assert_eq!(Socket::refusal(&sukkal.url(PATH), "p", &[]).await, 503);
    assert_eq!(first.ask("queue_list", json!({})).await.0, 200);
    drop(second);
    until("a place becomes free", async || Socket::try_open(&sukkal.url(PATH), "p", &[]).await.is_ok()).await;
}

#[tokio::test]
async fn unknown_clients_have_few_places_and_give_them_to_known_ones() {
    let keystone = StubKeystone::start();
    keystone.issue("good", described("u", Some("p"), &["member"], Duration::from_secs(600)));
    let sukkal = start_with_keystone(&keystone, &[("SUKKAL_WEBSOCKET__MAX_CONNECTIONS", "4")]);
    let mut unknown = open(&sukkal).await;
    let mut authenticated = open(&sukkal).await;
    assert_eq!(unknown.close_code().await, Some(1013));
    assert_eq!(authenticate(&mut authenticated, "X-Auth-Token", "good").await.0, 200);
    let mut unknown = open(&sukkal).await;

    let open_known = async || Socket::try_open(&sukkal.url(PATH), "p", &[("X-Auth-Token", "good")]).await;
    let mut known = vec![authenticated];
    for _ in 0..3 {
        known.push(open_known().await.expect("there is a place"));
    }

    assert_eq!(unknown.close_code().await, Some(1013));
    // A signature is no proof before it is verified.
    assert!(Socket::try_open(&sukkal.url(PATH), "p", &[("URL-Signature", "x")]).await.is_err());
    assert!(open_known().await.is_err() && Socket::try_open(&sukkal.url(PATH), "p", &[]).await.is_err());
    for socket in &mut known {
        assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
    }
}

/// Two connections of a project send a request while the store does not answer.
#[tokio::test]
async fn each_project_has_a_limited_number_of_requests_in_progress() {
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_WEBSOCKET__MAX_REQUESTS_PER_PROJECT", "1")]);
    let mut pairs = Vec::new();
    for project in ["p", "other"] {
        let mut pair = Vec::new();
        for _ in 0..2 {
            let mut socket = Socket::open(&sukkal.url(PATH), project).await;
            assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
            pair.push(socket);
        }
        pairs.push(<[Socket; 2]>::try_from(pair).ok().unwrap());
    }

    redis.pause();
    let mut waiting = Vec::new();
    for [mut one, mut two] in pairs {
        one.request("queue_list", &json!({})).await;
        two.request("queue_list", &json!({})).await;
        let (refusal, other) = tokio::select! {
            refusal = one.document() => (refusal, two),
            refusal = two.document() => (refusal, one),
        };
        assert_eq!(refusal["headers"]["status"], 429, "{refusal}");
        assert!(refusal["headers"]["Retry-After"].is_string(), "{refusal}");
        waiting.push(other);
    }
    redis.resume();

    for mut socket in waiting {
        let reply = socket.document().await;
        assert_eq!(reply["headers"]["status"], 200, "{reply}");
        assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
    }
}

/// A project alone may hold half of the 96 MiB for requests that are arriving.
#[tokio::test]
async fn a_connection_is_closed_when_its_project_has_used_up_the_memory_for_requests() {
    let sukkal = start(&[
        ("SUKKAL_AUTH__STRATEGIES", "proxy"),
        ("SUKKAL_AUTH__TRUSTED_PROXIES", "127.0.0.1"),
        ("SUKKAL_TRANSPORT__MAX_MESSAGES_POST_SIZE", "4194304"),
    ]);
    let url = sukkal.url(PATH);
    let of = async |project| Socket::try_open(&url, project, &[("X-Project-ID", project)]).await.unwrap();
    let fragment = |text: String, is_first, is_last| {
        let code = if is_first { Data::Text } else { Data::Continue };
        Message::Frame(Frame::message(text, OpCode::Data(code), is_last))
    };
    let mut incomplete = Vec::new();
    let refusal = loop {
        let mut socket = of("greedy").await;
        // The last one is refused while it arrives, so that the client may not send all of it.
        let _closed = socket.stream.send(fragment(" ".repeat(6 << 20), true, false)).await;
        let _closed = socket.stream.send(Message::Ping("x".into())).await;
        let answer = socket.next().await;
        match answer {
            Some(Ok(Message::Pong(_))) => incomplete.push(socket),
            Some(Ok(Message::Close(Some(refusal)))) => break refusal,
            other => panic!("{other:?}"),
        }
        assert!(incomplete.len() < 40, "the memory is not bounded");
    };
    assert_eq!(u16::from(refusal.code), 1013, "{refusal}");
    assert_eq!(incomplete.len() * 6, 42, "MiB were accepted");

    let mut other = of("other").await;
    post(&mut other, "q", &[json!("x".repeat(1 << 20))]).await;
    // Requests that have begun to arrive can be completed, and then there is memory again.
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "greedy" });
    let request = json!({ "action": "queue_list", "headers": headers }).to_string();
    let mut first = incomplete.remove(0);
    first.stream.send(fragment(request, false, true)).await.unwrap();
    assert_eq!(first.document().await["headers"]["status"], 200);
    post(&mut of("greedy").await, "q", &[json!("x".repeat(1 << 20))]).await;
}

#[tokio::test]
async fn subscriptions_of_connections_count_as_event_streams() {
    let sukkal = start(&[("SUKKAL_TRANSPORT__MAX_STREAMS_PER_PROJECT", "1")]);
    let mut socket = open(&sukkal).await;
    let id = socket.subscribe(json!({ "queue_name": "q" })).await;

    let (status, body) = socket.ask("subscription_create", json!({ "queue_name": "other" })).await;
    assert_eq!(status, 429, "{body}");
    assert_eq!(socket.ask("subscription_delete", json!({ "queue_name": "q", "subscription_id": id })).await.0, 204);
    until("the first subscription has ended", async || {
        socket.ask("subscription_create", json!({ "queue_name": "other" })).await.0 == 201
    })
    .await;
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_little_and_is_disconnected() {
    // The messages are in another process.
    let redis = RedisServer::start();
    let sukkal = Sukkal::start_with(&redis.url(), &[("SUKKAL_CLIENT_TIMEOUT", "5")]);
    let api = sukkal.project("p");
    let mut slow = open(&sukkal).await;
    slow.subscribe(json!({ "queue_name": "q" })).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        let mut other = open(&sukkal).await;
        other.subscribe(json!({ "queue_name": "q" })).await;
        others.push(other);
    }
    let before = resident_bytes(sukkal.id());
    let body = "x".repeat(10_000);
    let messages: Vec<Value> = (0..10).map(|_| json!({ "body": body, "ttl": 60 })).collect();
    for _ in 0..200 {
        answered(api.post("/v2/queues/q/messages", &json!({ "messages": messages })), 201).await;
        for other in &mut others[..1] {
            for _ in 0..10 {
                assert_eq!(other.document().await, notification("q", &json!(body)));
            }
        }
    }
    // The clients that do not read would hold 400 MB, if they were not bounded.
    let grown = resident_bytes(sukkal.id()).saturating_sub(before) / KIB;
    assert!(grown < 40_000, "the process has grown by {grown} kB");

    // Only one of the clients reads. A client that reads before it is disconnected is not too slow.
    let subscriptions = async || Exposition::of(&sukkal.url("")).await.value("sukkal_event_streams");
    until("the slow clients are disconnected", async || subscriptions().await == Some(1.0)).await;
    // The last bytes that were sent arrive, then the connection ends.
    let ended = async { while slow.stream.next().await.is_some_and(|message| message.is_ok()) {} };
    in_time("the connection of the slow client ends", ended).await;
}

#[tokio::test]
async fn a_client_that_sends_without_reading_replies_is_not_read() {
    let sukkal = start(&[("SUKKAL_CLIENT_TIMEOUT", "2")]);
    let mut socket = open(&sukkal).await;
    post(&mut socket, "q", &(0..10).map(|_| json!("x".repeat(20_000))).collect::<Vec<_>>()).await;
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "p" });
    let request = json!({ "action": "message_list", "headers": headers, "body": { "queue_name": "q", "echo": true } });
    let message = Message::text(request.to_string());

    // Each reply has 200 kB, and nobody reads them.
    let start = Instant::now();
    let mut sent = 0_u64;
    while start.elapsed() < PATIENCE {
        match timeout(Duration::from_secs(5), socket.stream.send(message.clone())).await {
            Ok(Ok(())) => sent += 1,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    assert!(start.elapsed() < PATIENCE, "{sent} requests were accepted");
}

#[tokio::test]
async fn the_service_closes_connections_when_it_stops() {
    let mut sukkal = start(&[]);
    let mut idle = open(&sukkal).await;
    let mut subscribed = open(&sukkal).await;
    subscribed.subscribe(json!({ "queue_name": "q" })).await;

    sukkal.terminate();
    assert_eq!((idle.close_code().await, subscribed.close_code().await), (Some(1001), Some(1001)));
    assert!(sukkal.wait().success());
}

/// Without a limit of its own, the connection would delay the stop of the service by the drain
/// timeout.
#[tokio::test]
async fn a_client_that_does_not_read_does_not_delay_the_stop_of_the_service() {
    let mut sukkal = start(&[("SUKKAL_DRAIN_TIMEOUT", "600"), ("SUKKAL_CLIENT_TIMEOUT", "600")]);
    let (mut slow, mut reading) = (open(&sukkal).await, open(&sukkal).await);
    for socket in [&mut slow, &mut reading] {
        socket.subscribe(json!({ "queue_name": "q" })).await;
    }
    let mut poster = open(&sukkal).await;
    for _ in 0..60 {
        post(&mut poster, "q", &[json!("x".repeat(200_000))]).await;
        reading.document().await;
    }

    sukkal.terminate();
    let stopped = tokio::task::spawn_blocking(move || sukkal.wait());
    assert!(in_time("the service stops", stopped).await.unwrap().success());
}

#[tokio::test]
async fn a_connection_whose_request_does_not_arrive_in_time_is_closed() {
    let sukkal = start(&[("SUKKAL_CLIENT_TIMEOUT", "3")]);
    let mut slow = open(&sukkal).await;
    slow.subscribe(json!({ "queue_name": "q" })).await;
    let mut patient = open(&sukkal).await;
    patient.subscribe(json!({ "queue_name": "q" })).await;

    let part = Frame::message("{", OpCode::Data(Data::Text), false);
    slow.stream.send(Message::Frame(part)).await.unwrap();

    assert_eq!(slow.close_code().await, Some(1008));
    assert_eq!(patient.ask("queue_list", json!({})).await.0, 200);
}

#[tokio::test]
async fn thousands_of_connections_are_served_and_each_takes_little_memory() {
    const COUNT: usize = 3_000;
    assert_eq!(sukkal::descriptors::connections_max(COUNT), COUNT, "the limit on open files is too low");
    let sukkal = start(&[]);
    let url = sukkal.url(PATH);
    assert_eq!(open(&sukkal).await.ask("queue_list", json!({})).await.0, 200);
    let before = resident_bytes(sukkal.id());

    let mut sockets = Vec::new();
    while sockets.len() < COUNT {
        sockets.extend(join_all((0..100).map(|_| Socket::open(&url, "p"))).await);
    }
    for socket in &mut sockets {
        socket.request("queue_get", &json!({ "queue_name": "q" })).await;
    }
    for socket in &mut sockets {
        assert_eq!(socket.document().await["headers"]["status"], 200);
    }

    let each = resident_bytes(sukkal.id()).saturating_sub(before) / KIB / COUNT;
    assert!(each < 64, "a connection takes {each} kB");
}
