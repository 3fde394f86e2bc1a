//! RFC 6455: fragments, control frames, and what violates the protocol. These are the groups of the
//! Autobahn test suite, with a few cases of each.

use futures::SinkExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{PATH, open, start};
use support::socket::Socket;
use support::sukkal::{CLIENT, Sukkal};

const FINAL: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;

/// Returns a frame of a client, whose mask is zero.
fn frame(head: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![head];
    match payload.len() {
        length @ ..126 => frame.push(0x80 | u8::try_from(length).unwrap()),
        length => {
            frame.push(0x80 | 0x7e);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(payload);
    frame
}

async fn write(socket: &mut Socket, bytes: &[u8]) {
    socket.stream.get_mut().write_all(bytes).await.unwrap();
}

/// Returns the code with which the service closes a connection after these frames.
async fn close_code_after(sukkal: &Sukkal, frames: &[Vec<u8>]) -> Option<u16> {
    let mut socket = open(sukkal).await;
    // The service may close the connection before it has read all of them.
    let _closed = socket.stream.get_mut().write_all(&frames.concat()).await;
    socket.close_code().await
}

fn request() -> String {
    let headers = json!({ "Client-ID": CLIENT, "X-Project-ID": "pröjekt" });
    json!({ "action": "queue_list", "headers": headers }).to_string()
}

#[tokio::test]
async fn a_request_may_be_in_fragments_with_control_frames_between_them() {
    let sukkal = start(&[]);
    let text = request();
    for size in [1, 7, 40, 1000] {
        let mut socket = open(&sukkal).await;
        let mut chunks = text.as_bytes().chunks(size).peekable();
        let mut opcode = TEXT;
        while let Some(chunk) = chunks.next() {
            let head = if chunks.peek().is_none() { FINAL | opcode } else { opcode };
            write(&mut socket, &frame(head, chunk)).await;
            write(&mut socket, &frame(FINAL | PING, b"between")).await;
            opcode = CONTINUATION;
        }
        assert_eq!(socket.document().await["body"], json!({ "queues": [] }), "{size}");
    }
}

#[tokio::test]
async fn a_ping_is_answered_with_its_payload() {
    let sukkal = start(&[]);
    let mut socket = open(&sukkal).await;
    for payload in [vec![], b"hello".to_vec(), vec![0xff; 125]] {
        socket.stream.send(Message::Ping(payload.clone().into())).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), Message::Pong(payload.into()));
    }
    // A pong that nobody asked for has no effect.
    socket.stream.send(Message::Pong("x".into())).await.unwrap();
    assert_eq!(socket.ask("queue_list", json!({})).await.0, 200);
}

#[tokio::test]
async fn violations_of_the_protocol_close_the_connection_with_their_code() {
    let sukkal = start(&[]);
    let unmasked = vec![FINAL | TEXT, 2, b'{', b'}'];
    let is_protocol_error = [
        ("a reserved bit", vec![frame(FINAL | 0x40 | TEXT, b"{}")]),
        ("a reserved data opcode", vec![frame(FINAL | 3, b"")]),
        ("a reserved control opcode", vec![frame(FINAL | 0xb, b"")]),
        ("a continuation of nothing", vec![frame(FINAL, b"{}")]),
        ("a new message among fragments", vec![frame(TEXT, b"{"), frame(FINAL | TEXT, b"}")]),
        ("a ping in fragments", vec![frame(PING, b"")]),
        ("a large ping", vec![frame(FINAL | PING, &[0; 126])]),
        ("a frame without a mask", vec![unmasked]),
        ("a close with one byte", vec![frame(FINAL | CLOSE, b"x")]),
        ("a close with an unknown code", vec![frame(FINAL | CLOSE, &999_u16.to_be_bytes())]),
    ];
    for (name, frames) in is_protocol_error {
        assert_eq!(close_code_after(&sukkal, &frames).await, Some(1002), "{name}");
    }
    // A character may be split among fragments, but not end early.
    let euro = "€".as_bytes();
    for (name, frames) in [
        ("one byte", vec![frame(FINAL | TEXT, b"\xff")]),
        ("an end within a character", vec![frame(TEXT, &euro[..1]), frame(FINAL, &euro[1..2])]),
        ("a surrogate", vec![frame(FINAL | TEXT, b"\xed\xa0\x80")]),
    ] {
        assert_eq!(close_code_after(&sukkal, &frames).await, Some(1007), "{name}");
    }
    // A large message is refused by the head of its frame, or by the sum of its fragments.
    let mut large = vec![FINAL | BINARY, 0x80 | 0x7f];
    large.extend((2_u64 << 20).to_be_bytes());
    large.extend([0; 4]);
    assert_eq!(close_code_after(&sukkal, &[large]).await, Some(1009), "a large frame");
    let fragments: Vec<Vec<u8>> =
        (0..40).map(|index| frame(if index == 0 { TEXT } else { CONTINUATION }, &vec![b' '; 60_000])).collect();
    assert_eq!(close_code_after(&sukkal, &fragments).await, Some(1009), "many fragments");
}

#[tokio::test]
async fn a_close_is_answered_with_its_code() {
    let sukkal = start(&[]);
    for code in [1000_u16, 1001, 3000, 4999] {
        let mut socket = open(&sukkal).await;
        let close = CloseFrame { code: code.into(), reason: "bye".into() };
        socket.stream.send(Message::Close(Some(close))).await.unwrap();
        assert_eq!(socket.close_code().await, Some(code));
    }
}

#[tokio::test]
async fn only_a_request_for_a_websocket_opens_one() {
    let sukkal = start(&[]);
    let url = sukkal.url(PATH);
    let answer = crate::http::send(support::plain_http::client().get(&url)).await;
    assert_eq!(answer.refusal(426, "426 Upgrade Required").split(':').next(), Some("This path serves WebSockets"));
    assert_eq!(answer.header("upgrade"), Some("websocket"));
    assert!(Socket::try_open(&url, "p", &[("Sec-WebSocket-Version", "8")]).await.is_err());
}

#[tokio::test]
async fn a_request_for_a_websocket_with_a_body_is_refused() {
    let sukkal = start(&[]);
    let url = sukkal.url(PATH);
    for header in [("Content-Length", "1"), ("Transfer-Encoding", "chunked")] {
        match Socket::try_open(&url, "p", &[header]).await {
            Err(Error::Http(answer)) => assert_eq!(answer.status(), 400, "{header:?}"),
            other => panic!("{header:?}: {:?}", other.map(drop)),
        }
    }
    assert!(Socket::try_open(&url, "p", &[("Content-Length", "0")]).await.is_ok());
}

/// Mutations of a valid connection, and random bytes.
#[tokio::test]
async fn no_bytes_harm_more_than_their_connection() {
    let sukkal = start(&[]);
    let seed = support::random::seed();
    let mut random = support::random::Random::new(seed, 0, 0);
    let valid = [frame(TEXT, &request().as_bytes()[..20]), frame(FINAL, &request().as_bytes()[20..])].concat();
    let packed = rmp_serde::to_vec(&serde_json::from_str::<serde_json::Value>(&request()).unwrap()).unwrap();
    let valid = [valid, frame(FINAL | BINARY, &packed), frame(FINAL | PING, b"x")].concat();
    for _ in 0..300 {
        let mut bytes = valid.clone();
        for _ in 0..=random.below(8) {
            let at = random.below(bytes.len());
            match random.below(3) {
                0 => bytes[at] = u8::try_from(random.below(256)).unwrap(),
                1 => bytes.truncate(at.max(1)),
                _ => bytes.insert(at, u8::try_from(random.below(256)).unwrap()),
            }
        }
        let mut socket = open(&sukkal).await;
        // The service may have closed the connection already.
        let _closed = socket.stream.get_mut().write_all(&bytes).await;
        let _closed = socket.stream.get_mut().shutdown().await;
        while let Some(Ok(_)) = socket.next().await {}
    }
    assert_eq!(open(&sukkal).await.ask("queue_list", json!({})).await.0, 200);
    let log = sukkal.log().concat();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
}
