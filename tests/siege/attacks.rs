//! What attackers do. Each attack is one connection, from its beginning to its end; then the
//! attacker begins again.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hyper::Request;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::wire::{Ended, Stream, Target, frame, head, read_to_end, send, write_to_end};
use crate::tls::client::{PREFACE, reset_request};
use support::sukkal::CLIENT;

const LARGE: usize = 250_000;
/// Number of queues with large metadata of each project.
const QUEUES: usize = 200;
/// Number of projects whose names one client uses.
const NAMES: usize = 20_000;
/// Number of responses that a client requests over one connection with HTTP/2, and does not read.
const UNREAD: usize = 100;
const TEXT: u8 = 1;
const PING: u8 = 9;

type Attack = fn(Target, usize) -> Pin<Box<dyn Future<Output = Ended> + Send>>;

/// Attackers of one kind.
pub(super) struct Attackers {
    pub(super) name: &'static str,
    pub(super) is_known: bool,
    /// Number of connections at the same time.
    pub(super) count: usize,
    pub(super) attack: Attack,
}

macro_rules! attackers {
    ($($who:ident $count:literal $attack:ident,)*) => {
        /// All attackers. Each has a number among those of its kind.
        pub(super) const ALL: &[Attackers] = &[$(Attackers {
            name: stringify!($attack),
            is_known: who::$who,
            count: $count,
            attack: |target, number| Box::pin($attack(target, number)),
        }),*];
    };
}

mod who {
    #![allow(non_upper_case_globals, reason = "the table reads like a sentence")]
    pub(super) const known: bool = true;
    pub(super) const unknown: bool = false;
}

attackers! {
    unknown 150 send_half_a_head,
    unknown 150 send_half_a_body,
    unknown 250 hold_a_socket,
    unknown 50 ping_without_reading,
    unknown 50 send_frames_without_reading,
    unknown 60 read_byte_by_byte,
    unknown 20 reset_requests,
    unknown 30 send_refused_requests_over_http2,
    unknown 20 try_tokens,
    known 200 send_a_large_body_without_its_end,
    known 30 request_pages_without_reading,
    known 100 follow_without_reading,
    known 40 list_over_a_socket_without_reading,
    known 40 subscribe_over_a_socket,
    known 8 store_large_metadata,
    known 8 filter_queues,
    known 8 use_many_names,
    known 8 create_refused_subscriptions,
    known 16 post_thousands,
}

/// Returns the project of an attacker. They have several, so that they may hold most of each
/// budget.
pub(super) fn project(number: usize) -> String {
    format!("siege-{}", number % 4)
}

/// Returns the largest metadata that is accepted.
fn metadata() -> String {
    let values: Vec<String> = (0..900).map(|value| format!("[{value:060}]")).collect();
    format!(r#"{{"a": [{}]}}"#, values.join(",")).replace("[0", "[1")
}

/// Fills the queues that attackers read: pages of half a megabyte, and metadata that filters read.
pub(super) async fn prepare(target: &Target) -> Ended {
    let message = json!({ "messages": [{ "ttl": 3600, "body": "x".repeat(LARGE) }] }).to_string();
    for number in 0..4 {
        let mut client = target.open_client().await?;
        for _ in 0..2 {
            client.send(&project(number), "POST", "/v2/queues/large/messages", message.clone()).await?;
        }
    }
    Ok(())
}

async fn send_half_a_head(target: Target, _number: usize) -> Ended {
    let mut stream = target.open().await?;
    stream.write_all(format!("GET / HTTP/1.1\r\nX-Long: {}", "x".repeat(60_000)).as_bytes()).await?;
    read_to_end(stream).await
}

async fn send_half_a_body(target: Target, number: usize) -> Ended {
    let mut stream = target.open().await?;
    let head = head("POST /v2/queues/q/messages", &project(number), "Content-Length: 1000000\r\n");
    stream.write_all(format!("{head}{{").as_bytes()).await?;
    read_to_end(stream).await
}

async fn hold_a_socket(target: Target, number: usize) -> Ended {
    read_to_end(target.open_socket(&project(number)).await?).await
}

async fn ping_without_reading(target: Target, number: usize) -> Ended {
    write_to_end(target.open_socket(&project(number)).await?, &frame(PING, &[0; 125]).repeat(100)).await
}

async fn send_frames_without_reading(target: Target, number: usize) -> Ended {
    let request = json!({ "action": "nonsense", "headers": {}, "body": { "x": "y".repeat(15_000) } }).to_string();
    write_to_end(target.open_socket(&project(number)).await?, &frame(TEXT, request.as_bytes())).await
}

async fn read_byte_by_byte(target: Target, number: usize) -> Ended {
    let (mut sender, mut connection) = target.open_without_window().await?;
    let path = ["/docs", "/metrics", "/console", "/"][number % 4];
    let mut responses = Vec::new();
    for _ in 0..20 {
        let request = Request::get(format!("https://localhost{path}")).body(())?;
        let Ok((response, _)) = sender.send_request(request, true) else { break };
        responses.push(response);
    }
    for window in 1.. {
        // The service may not have acknowledged the last window yet.
        let _is_pending = connection.set_initial_window_size(window);
        tokio::select! {
            ended = &mut connection => return Ok(ended?),
            () = sleep(Duration::from_millis(500)) => {}
        }
    }
    Ok(())
}

async fn reset_requests(target: Target, _number: usize) -> Ended {
    let mut stream = target.open_http2().await?;
    stream.write_all(PREFACE).await?;
    for id in (1_u32..).step_by(2) {
        stream.write_all(&reset_request(id)).await?;
    }
    Ok(())
}

/// Keeps the maximum number of requests in progress, as fast as the service refuses them.
async fn send_refused_requests_over_http2(target: Target, _number: usize) -> Ended {
    let (sender, connection) = target.open_without_window().await?;
    let mut requests = JoinSet::new();
    for _ in 0..UNREAD {
        requests.spawn(send_refused_requests(sender.clone()));
    }
    connection.await?;
    Ok(())
}

/// Drops each response, whose body is not read.
async fn send_refused_requests(sender: h2::client::SendRequest<Bytes>) -> Result<Infallible, h2::Error> {
    loop {
        let request = Request::get("https://localhost/v2/queues").body(()).expect("the request is valid");
        sender.clone().ready().await?.send_request(request, true)?.0.await?;
    }
}

async fn try_tokens(target: Target, number: usize) -> Ended {
    let mut stream = target.open().await?;
    for attempt in 0_usize.. {
        let token = format!("X-Auth-Token: skt_{number:08}{attempt:08}_{}\r\n", "x".repeat(43));
        if send(&mut stream, &head("GET /v2/queues", "p", &token)).await?.is_empty() {
            break;
        }
    }
    Ok(())
}

async fn send_a_large_body_without_its_end(target: Target, number: usize) -> Ended {
    let mut stream = target.open().await?;
    let length = format!("Content-Length: {}\r\n", LARGE + 1_000);
    let head = head("POST /v2/queues/q/messages", &project(number), &length);
    stream.write_all(format!("{head}{}", " ".repeat(LARGE)).as_bytes()).await?;
    read_to_end(stream).await
}

async fn request_pages_without_reading(target: Target, number: usize) -> Ended {
    let (sender, connection) = target.open_without_window().await?;
    let mut responses = JoinSet::new();
    for _ in 0..UNREAD {
        let request = Request::get("https://localhost/v2/queues/large/messages?echo=true&include_claimed=true")
            .header("X-Project-ID", project(number))
            .header("Client-ID", CLIENT)
            .body(())?;
        let sender: h2::client::SendRequest<Bytes> = sender.clone();
        responses.spawn(async move {
            let response = sender.ready().await?.send_request(request, true)?.0.await?;
            // The response is kept, and not read.
            std::future::pending::<()>().await;
            drop(response);
            Ok::<(), h2::Error>(())
        });
    }
    connection.await?;
    Ok(())
}

/// Keeps a connection of which nothing is read any more.
async fn hold(stream: Stream) -> Ended {
    // The end is noticed when something is written.
    sleep(Duration::from_secs(20)).await;
    drop(stream);
    Ok(())
}

async fn follow_without_reading(target: Target, number: usize) -> Ended {
    let mut stream = target.open().await?;
    let path = "GET /v2/queues/large/messages?echo=true&since=1970-01-01T00:00:00Z";
    stream.write_all(head(path, &project(number), "Accept: text/event-stream\r\n").as_bytes()).await?;
    hold(stream).await
}

/// Returns a request over a WebSocket.
fn request(number: usize, action: &str, body: &serde_json::Value) -> Vec<u8> {
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": project(number) });
    frame(TEXT, json!({ "action": action, "headers": headers, "body": body }).to_string().as_bytes())
}

async fn list_over_a_socket_without_reading(target: Target, number: usize) -> Ended {
    let list = request(number, "message_list", &json!({ "queue_name": "large", "echo": true }));
    write_to_end(target.open_socket(&project(number)).await?, &list).await
}

async fn subscribe_over_a_socket(target: Target, number: usize) -> Ended {
    let mut stream = target.open_socket(&project(number)).await?;
    for queue in 0..200 {
        let body = json!({ "queue_name": format!("s{queue}"), "options": { "a": "x".repeat(50_000) } });
        stream.write_all(&request(number, "subscription_create", &body)).await?;
    }
    read_to_end(stream).await
}

async fn store_large_metadata(target: Target, number: usize) -> Ended {
    let mut client = target.open_client().await?;
    let metadata = Bytes::from(metadata());
    for queue in 0..QUEUES {
        let path = format!("/v2/queues/m{queue}");
        client.send(&project(number), "PUT", &path, metadata.clone()).await?;
        let message = r#"{"messages": [{"ttl": 300, "body": 1}]}"#;
        client.send(&project(number), "POST", &format!("{path}/messages"), message).await?;
    }
    Ok(())
}

async fn filter_queues(target: Target, number: usize) -> Ended {
    let mut client = target.open_client().await?;
    for _ in 0..20 {
        client.send(&project(number), "GET", "/v2/queues?x=1", "").await?;
    }
    Ok(())
}

async fn use_many_names(target: Target, number: usize) -> Ended {
    let mut client = target.open_client().await?;
    for name in (0..NAMES).skip(number * 7919 % NAMES) {
        client.send(&format!("name-{name}"), "PUT", "/v2/queues/q", "").await?;
    }
    Ok(())
}

async fn create_refused_subscriptions(target: Target, number: usize) -> Ended {
    let mut client = target.open_client().await?;
    for queue in 0..300 {
        let options = format!(r#"{{"subscriber": "http://127.0.0.1:{queue}", "options": {}}}"#, metadata());
        client.send(&project(number), "POST", &format!("/v2/queues/r{queue}/subscriptions"), options).await?;
    }
    Ok(())
}

/// Posts the largest number of messages at once, again and again.
async fn post_thousands(target: Target, number: usize) -> Ended {
    let mut client = target.open_client().await?;
    let path = format!("/v2/queues/posts-{number}");
    let message = json!({ "ttl": 300, "body": "x".repeat(100) });
    let messages = Bytes::from(json!({ "messages": vec![message; 1_000] }).to_string());
    for _ in 0..5 {
        client.send(&project(number), "POST", &format!("{path}/messages"), messages.clone()).await?;
    }
    client.send(&project(number), "DELETE", &path, "").await?;
    Ok(())
}
