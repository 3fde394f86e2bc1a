//! Limits on HTTP/2 connections and their streams.

use std::time::{Duration, Instant};

use h2::Reason;
use h2::client::Builder;
use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{sleep, timeout};

use super::Server;
use super::client::{Http2, PREFACE, TIMEOUT, body, connect, head, message, metric, reset_request, waiting_requests};
use support::memory::resident_bytes;
use support::waiting::{in_time, until, until_some};

/// A browser opens at most six connections with HTTP/1 to a server.
const EVENT_STREAMS: usize = 20;

/// Returns how many connections the service has closed for this reason.
async fn closed(server: &Server, reason: &str) -> u64 {
    metric(server, &format!("sukkal_http_connections_closed_total{{reason=\"{reason}\"}}")).await
}

#[tokio::test]
async fn one_connection_has_many_event_streams() {
    let server = Server::start(&[]);
    let mut http = Http2::open(&server).await;
    let mut streams = Vec::new();
    for number in 0..EVENT_STREAMS {
        let path = format!("/v2/queues/q{number}/messages?echo=true");
        let request = http.request("GET", &path).header("Accept", "text/event-stream").body(()).unwrap();
        let (response, _) = http.sender.send_request(request, true).unwrap();
        streams.push(head(response).await.into_parts().1);
    }

    for number in 0..EVENT_STREAMS {
        http.post(&format!("q{number}"), &format!("message {number}")).await;
    }

    for (number, mut stream) in streams.into_iter().enumerate() {
        let mut text = String::new();
        while !text.contains(&format!("message {number}")) {
            let data = timeout(TIMEOUT, stream.data()).await.expect("the event arrives").unwrap().unwrap();
            text.push_str(str::from_utf8(&data).unwrap());
        }
    }
}

#[tokio::test]
async fn a_connection_has_at_most_100_requests() {
    let server = Server::start(&[]);
    let http = Http2::open(&server).await;

    until("the settings arrive", async || http.sender.current_max_send_streams() == 100).await;
}

/// With HTTP/1, there is one request for each connection.
#[tokio::test]
async fn all_connections_together_have_a_limited_number_of_requests() {
    let server = Server::start(&[("SUKKAL_MAX_CONNECTIONS", "2")]);
    let mut http = Http2::open(&server).await;
    // An unknown client would have a quarter of the number.
    head(http.send("GET", "/v2/queues", "").await).await;
    let mut waiting = Vec::new();
    for _ in 0..3 {
        waiting.push(http.send("DELETE", "/v2/queues/q/messages?pop=1&wait=20", "").await);
    }

    let refused = http.send("GET", "/v2/queues", "").await;

    let error = timeout(TIMEOUT, refused).await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
    let mut other = Http2::open(&server).await;
    for _ in &waiting {
        other.post("q", "one").await;
    }
    for response in waiting {
        assert_eq!(message(response).await, "one");
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_a_response_is_disconnected() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "5")]);
    let mut settings = Builder::new();
    settings.initial_window_size(1_000);
    let mut http = Http2::open_with(&server, &settings, |connection| connection).await;
    let path = |queue| format!("/v2/queues/{queue}/messages?pop=1&wait=30");
    let sibling = http.send("DELETE", &path("sibling"), "").await;
    let unread = http.send("DELETE", &path("unread"), "").await;
    until("both requests wait", async || waiting_requests(&server).await == 2).await;
    Http2::open(&server).await.post("unread", &"x".repeat(2_000)).await;

    let (_, mut unread) = head(unread).await.into_parts();
    let ended = async { while unread.data().await.is_some_and(|data| data.is_ok()) {} };

    timeout(TIMEOUT, ended).await.expect("the connection ends");
    sibling.await.unwrap_err();
    let mut other = Http2::open(&server).await;
    let returned = other.send("DELETE", "/v2/queues/unread/messages?pop=1&wait=20", "").await;
    assert_eq!(message(returned).await, "x".repeat(2_000));
    assert_eq!(waiting_requests(&server).await, 0);
}

#[tokio::test]
async fn a_client_that_resets_many_streams_at_once_is_disconnected() {
    const GOAWAY: u8 = 7;
    const ENHANCE_YOUR_CALM: u8 = 0xb;
    let server = Server::start(&[]);
    let mut stream = connect(&server, "h2").await;
    let mut frames = PREFACE.to_vec();
    frames.extend((1..401).step_by(2).flat_map(reset_request));

    stream.write_all(&frames).await.unwrap();

    let mut received = Vec::new();
    // The end of the connection may be a reset.
    let _end = timeout(TIMEOUT, stream.read_to_end(&mut received)).await.expect("the server closes the connection");
    let mut rest = &received[..];
    let mut goaway_reason = None;
    while let Some((head, after)) = rest.split_at_checked(9) {
        let length = usize::from(head[1]) << 8 | usize::from(head[2]);
        if head[3] == GOAWAY {
            goaway_reason = Some(after[7]);
        }
        rest = &after[length..];
    }
    assert_eq!(goaway_reason, Some(ENHANCE_YOUR_CALM));
    assert_eq!(closed(&server, "flood").await, 1);
}

/// The service has to answer each of these frames, also those of an unknown client.
#[tokio::test]
async fn control_frames_of_a_client_that_does_not_read_hold_no_memory() {
    const FLOOD_BYTES: usize = 64 << 20;
    const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
    const PING: &[u8] = &[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let server = Server::start(&[]);
    for frame in [SETTINGS, PING] {
        let mut stream = connect(&server, "h2").await;
        stream.write_all(PREFACE).await.unwrap();
        let before = resident_bytes(server.sukkal.id());
        let frames = frame.repeat(1_000);
        let flood = async {
            for _ in 0..FLOOD_BYTES / frames.len() {
                stream.write_all(&frames).await?;
            }
            std::io::Result::Ok(())
        };

        let outcome = timeout(Duration::from_secs(5), flood).await;

        // The service reads on only as long as it can write, or closes the connection.
        assert!(!matches!(outcome, Ok(Ok(()))), "it has read {FLOOD_BYTES} bytes");
        let grown = resident_bytes(server.sukkal.id()).saturating_sub(before);
        assert!(grown < 8 << 20, "the frames have taken {} KiB", grown >> 10);
    }
}

#[tokio::test]
async fn a_request_names_one_host_and_has_a_head_of_limited_size() {
    let server = Server::start(&[]);
    let mut http = Http2::open(&server).await;
    let address = server.sukkal.address().to_owned();
    for (header, value, status, description) in [
        ("Host", address.clone(), StatusCode::OK, "queues"),
        ("Host", "elsewhere".to_owned(), StatusCode::BAD_REQUEST, "must name its host exactly once"),
        ("X-Long", "x".repeat(70_000), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "at most 65536 bytes"),
        ("X-Long", "x".repeat(140_000), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, ""),
    ] {
        let request = http.request("GET", "/v2/queues").header(header, value).body(()).unwrap();
        let (response, _) = http.sender.send_request(request, true).unwrap();
        let response = head(response).await;
        assert_eq!(response.status(), status, "{header}");
        assert!(body(response).await.contains(description));
    }
    let mut many = http.request("GET", "/v2/queues").body(()).unwrap();
    many.headers_mut().extend((0..100_u32).map(|_| (HeaderName::from_static("x"), HeaderValue::from_static("1"))));
    let response = head(http.sender.send_request(many, true).unwrap().0).await;
    assert_eq!(response.status(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert!(body(response).await.contains("has 104 headers; at most 100 are allowed"));
}

#[tokio::test]
async fn a_new_connection_replaces_one_that_was_idle_for_a_second_and_not_one_with_a_request() {
    let server = Server::start(&[("SUKKAL_MAX_CONNECTIONS", "2")]);
    let mut busy = Http2::open(&server).await;
    let waiting = busy.wait_for_message(&server, "q").await;
    let mut idle = Http2::open(&server).await;
    idle.post("other", "one").await;
    sleep(Duration::from_millis(1100)).await;

    let mut new = Http2::open(&server).await;

    new.post("q", "two").await;
    // The client may notice it while it is writing.
    let _end = idle.closed().await;
    assert_eq!(message(waiting).await, "two");
    assert_eq!(waiting_requests(&server).await, 0);
}

#[tokio::test]
async fn a_connection_is_closed_after_the_idle_timeout_and_not_while_it_has_a_request() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "1"), ("SUKKAL_IDLE_TIMEOUT", "2")]);
    let start = Instant::now();
    let mut http = Http2::open(&server).await;
    let waiting = http.send("DELETE", "/v2/queues/q/messages?pop=1&wait=3", "").await;
    assert_eq!(head(waiting).await.status(), StatusCode::OK);
    // A client without a sender would close the connection itself.
    let _sender = http.sender.clone();

    http.closed().await.unwrap();

    let elapsed = start.elapsed();
    assert!(elapsed >= Duration::from_secs(5), "it was closed after {elapsed:?}");
}

#[tokio::test]
async fn responses_that_are_not_read_have_a_memory_budget() {
    let server = Server::start(&[]);
    let mut poster = Http2::open(&server).await;
    for _ in 0..2 {
        poster.post("q", &"x".repeat(250_000)).await;
    }
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let (mut unread, mut refused) = (Vec::new(), None);

    // A project has half of 64 MiB, and each page takes half a megabyte.
    for _ in 0..3 {
        let mut http = Http2::open_with(&server, &settings, |connection| connection).await;
        for _ in 0..100 {
            let response = head(http.send("GET", "/v2/queues/q/messages?echo=true", "").await).await;
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                assert!(response.headers().contains_key("retry-after"));
                refused.get_or_insert(unread.len());
            }
            unread.push(response);
        }
    }

    let refused = refused.expect("a request is refused");
    assert!((50..70).contains(&refused), "{refused}");
    let mut request = poster.request("GET", "/v2/queues").body(()).unwrap();
    request.headers_mut().insert("X-Project-ID", "other".parse().unwrap());
    assert_eq!(head(poster.sender.send_request(request, true).unwrap().0).await.status(), StatusCode::OK);
    drop(unread);
    until("the memory is free again", async || {
        head(poster.send("GET", "/v2/queues/q/messages?echo=true", "").await).await.status() == StatusCode::OK
    })
    .await;
}

/// Many requests may wait for messages before the memory is used up.
#[tokio::test]
async fn a_message_that_was_waited_for_returns_to_its_queue_if_the_response_gets_no_memory() {
    let server = Server::start(&[]);
    let mut poster = Http2::open(&server).await;
    let waiting = poster.wait_for_message(&server, "awaited").await;
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let mut unread = Vec::new();
    // Smaller and smaller pages fill the memory.
    for bytes in [250_000, 25_000] {
        let queue = format!("of-{bytes}");
        poster.post(&queue, &"x".repeat(bytes)).await;
        let mut http = Http2::open_with(&server, &settings, |connection| connection).await;
        loop {
            let response = head(http.send("GET", &format!("/v2/queues/{queue}/messages?echo=true"), "").await).await;
            if response.status() == StatusCode::SERVICE_UNAVAILABLE {
                break;
            }
            unread.push(response);
            if unread.len() % 90 == 0 {
                http = Http2::open_with(&server, &settings, |connection| connection).await;
            }
        }
    }

    poster.post("awaited", &"x".repeat(250_000)).await;

    assert_eq!(head(waiting).await.status(), StatusCode::SERVICE_UNAVAILABLE);
    drop(unread);
    let returned = until_some("the message is returned", async || {
        let popped = head(poster.send("DELETE", "/v2/queues/awaited/messages?pop=1", "").await).await;
        // The memory may not be free yet.
        let text = if popped.status() == StatusCode::OK { body(popped).await } else { String::new() };
        text.contains("xxx").then_some(text)
    })
    .await;
    assert!(returned.contains(&"x".repeat(250_000)));
}

/// Clients without a credential could otherwise hold all connections for as long as their responses
/// may take.
#[tokio::test]
async fn unknown_clients_that_do_not_read_give_their_connections_to_others() {
    let server = Server::start(&[("SUKKAL_MAX_CONNECTIONS", "2")]);
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let mut unread = Vec::new();
    for _ in 0..2 {
        let mut http = Http2::open_with(&server, &settings, |connection| connection).await;
        unread.push(head(http.send("GET", "/", "").await).await);
    }

    let mut others = Vec::new();
    for _ in 0..2 {
        let mut http = in_time("there is a connection", Http2::open(&server)).await;
        assert!(body(head(http.send("GET", "/", "").await).await).await.contains("versions"));
        others.push(http);
    }
    drop(others);
    assert!(closed(&server, "replaced").await >= 2);
}

/// A client without a credential could otherwise hold a connection for ever.
#[tokio::test]
async fn a_client_that_accepts_a_response_byte_by_byte_is_disconnected() {
    let server = Server::start(&[("SUKKAL_CLIENT_TIMEOUT", "2")]);
    let mut settings = Builder::new();
    settings.initial_window_size(0);
    let mut http = Http2::open_with(&server, &settings, |mut connection| async move {
        for window in 1.. {
            // The server may not have acknowledged the last window yet.
            let _is_pending = connection.set_initial_window_size(window);
            tokio::select! {
                ended = &mut connection => return ended,
                () = sleep(Duration::from_millis(500)) => {}
            }
        }
        Ok(())
    })
    .await;

    let (_, mut response) = head(http.send("GET", "/v2", "").await).await.into_parts();

    let ended = async { while response.data().await.is_some_and(|data| data.is_ok()) {} };
    timeout(TIMEOUT, ended).await.expect("the connection ends");
    assert!(!response.is_end_stream(), "the response is not complete");
    assert_eq!(closed(&server, "slow").await, 1);
}
