//! Messages of HTTP/2 streams that are reset, or whose connection breaks, before the response is
//! written, or whose client does not accept it.

use std::time::Duration;

use h2::client::Builder;
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::Server;
use super::client::{Http2, body, head, message, metric, waiting_requests};
use support::random::{self, Random};
use support::waiting::{in_time, until};

const ROLE: u64 = 0x7e5e;
const CAMPAIGN_RESETS: usize = 60;
/// Period in which a stream of the campaign is reset, in microseconds.
const SPREAD_US: u64 = 4_000;

/// Opens a connection whose client accepts at most this number of bytes of each response, until the
/// sender is used.
async fn connection_with_window(server: &Server, bytes: u32) -> (Http2, oneshot::Sender<()>) {
    let (open, opened) = oneshot::channel();
    let mut settings = Builder::new();
    settings.initial_window_size(bytes);
    let http = Http2::open_with(server, &settings, |mut connection| async move {
        tokio::select! {
            ended = &mut connection => return ended,
            Ok(()) = opened => {}
        }
        connection.set_initial_window_size(1 << 20)?;
        connection.await
    });
    (http.await, open)
}

/// Returns the text of the message that another client pops, if it gets one at once.
async fn pop(other: &mut Http2, queue: &str) -> Option<String> {
    let response = other.send("DELETE", &format!("/v2/queues/{queue}/messages?pop=1"), "").await;
    let response = head(response).await;
    let document = serde_json::from_str::<serde_json::Value>(&body(response).await).ok()?;
    document["messages"][0]["body"].as_str().map(str::to_owned)
}

/// Returns the text of the message that another client pops. It waits until there is one.
async fn returned(other: &mut Http2, queue: &str) -> String {
    let response = other.send("DELETE", &format!("/v2/queues/{queue}/messages?pop=1&wait=20"), "").await;
    message(response).await.as_str().expect("the message has a text").to_owned()
}

#[tokio::test]
async fn the_messages_of_a_reset_stream_are_returned_and_its_siblings_get_theirs() {
    let server = Server::start(&[]);
    let mut other = Http2::open(&server).await;
    let (mut http, open) = connection_with_window(&server, 0).await;
    let reset = http.wait_for_message(&server, "reset").await;
    let sibling = http.wait_for_message(&server, "sibling").await;
    other.post("reset", "one").await;
    other.post("sibling", "two").await;
    let (reset, sibling) = (head(reset).await, head(sibling).await);
    assert_eq!(pop(&mut other, "reset").await, None, "the message was popped");

    drop(reset);

    assert_eq!(returned(&mut other, "reset").await, "one");
    open.send(()).unwrap();
    assert!(body(sibling).await.contains("\"body\":\"two\""));
    assert_eq!(pop(&mut other, "sibling").await, None);
}

#[tokio::test]
async fn a_message_of_which_a_part_was_written_is_returned() {
    let server = Server::start(&[]);
    let mut other = Http2::open(&server).await;
    // The second response consists of several frames.
    for (window, length) in [(100, 1_000), (40_000, 100_000), (40_000, 40_000)] {
        let text = "x".repeat(length);
        let (mut http, _closed) = connection_with_window(&server, window).await;
        let waiting = http.wait_for_message(&server, "q").await;
        other.post("q", &text).await;
        let (_, mut stream) = head(waiting).await.into_parts();
        let mut received = 0;
        while received < window as usize {
            let data = in_time("more of the message arrives", stream.data()).await;
            received += data.expect("more follows").unwrap().len();
        }

        drop(stream);

        assert!(returned(&mut other, "q").await == text, "window {window}");
    }
}

#[tokio::test]
async fn a_broken_connection_returns_the_messages_of_all_its_streams() {
    let server = Server::start(&[]);
    let mut other = Http2::open(&server).await;
    let (mut http, _closed) = connection_with_window(&server, 0).await;
    let mut responses = Vec::new();
    for queue in ["a", "b"] {
        let waiting = http.wait_for_message(&server, queue).await;
        other.post(queue, queue).await;
        responses.push(head(waiting).await);
    }

    http.break_off().await;

    for queue in ["a", "b"] {
        assert_eq!(returned(&mut other, queue).await, queue);
    }
}

#[tokio::test]
async fn a_message_that_its_client_does_not_accept_in_time_is_returned() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "1")]);
    let mut other = Http2::open(&server).await;
    let (mut http, _closed) = connection_with_window(&server, 0).await;
    let waiting = http.wait_for_message(&server, "q").await;
    other.post("q", "one").await;

    let _unread = head(waiting).await;

    assert_eq!(returned(&mut other, "q").await, "one");
}

#[tokio::test]
async fn a_claim_of_a_reset_stream_is_withdrawn() {
    let server = Server::start(&[]);
    let mut other = Http2::open(&server).await;
    let (mut http, _closed) = connection_with_window(&server, 0).await;
    let claim = json!({ "ttl": 300, "grace": 60 }).to_string();
    let claimed = http.send("POST", "/v2/queues/q/claims?wait=20", &claim).await;
    until("the claim waits", async || waiting_requests(&server).await == 1).await;
    other.post("q", "one").await;
    let claimed = head(claimed).await;
    assert_eq!(claimed.status(), StatusCode::CREATED);

    drop(claimed);

    assert_eq!(returned(&mut other, "q").await, "one");
}

#[tokio::test]
async fn a_delivered_message_is_not_returned() {
    let server = Server::start(&[]);
    let mut other = Http2::open(&server).await;
    for length in [10, 500, 5_000, 200_000] {
        let text = "x".repeat(length);
        let mut http = Http2::open(&server).await;
        let waiting = http.wait_for_message(&server, "q").await;
        other.post("q", &text).await;
        assert!(message(waiting).await == text);
        http.break_off().await;
    }

    // The pick-up delay is recorded when the message has been delivered.
    until("all messages are delivered", async || metric(&server, "sukkal_pickup_delay_seconds_count").await == 4).await;
    assert_eq!(pop(&mut other, "q").await, None);
}

#[tokio::test]
async fn a_reset_stream_does_not_wait_any_more() {
    let server = Server::start(&[]);
    let mut http = Http2::open(&server).await;
    let waiting = http.wait_for_message(&server, "q").await;

    drop(waiting);

    until("the request has ended", async || waiting_requests(&server).await == 0).await;
    http.post("q", "one").await;
    assert_eq!(pop(&mut http, "q").await.as_deref(), Some("one"));
}

/// A client that accepts no byte of its response never has a message, whenever it resets the
/// stream.
#[tokio::test]
async fn a_message_is_returned_whenever_the_stream_is_reset() {
    let server = Server::start(&[]);
    let mut random = Random::new(random::seed(), ROLE, 0);
    let mut other = Http2::open(&server).await;
    let (mut http, _closed) = connection_with_window(&server, 0).await;
    for number in 0..CAMPAIGN_RESETS {
        let text = number.to_string();
        let waiting = http.send("DELETE", "/v2/queues/q/messages?pop=1&wait=20", "").await;
        let [reset_after, post_after] = [(); 2].map(|()| Duration::from_micros(random.within(0..=SPREAD_US)));
        let reset = async {
            sleep(reset_after).await;
            drop(waiting);
        };
        let post = async {
            sleep(post_after).await;
            other.post("q", &text).await;
        };
        tokio::join!(reset, post);

        assert_eq!(returned(&mut other, "q").await, text);
    }
}
