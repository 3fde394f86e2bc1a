//! Raw requests, byte by byte, for requests that no HTTP client would send.

use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Answer, Project};

/// How long the server on a busy machine may take for one response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

const PIECES: usize = 5;
/// How long a slow client waits for a response between two pieces of its request.
const PAUSE: Duration = Duration::from_millis(50);

impl Project {
    pub(super) async fn connect(&self) -> TcpStream {
        let url = self.server.sukkal.url("");
        let address = url.strip_prefix("http://").expect("the server speaks HTTP");
        TcpStream::connect(address).await.expect("the server listens")
    }

    /// Sends the whole request first, and then reads until the server closes the connection.
    pub(super) async fn send_raw(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect().await;
        let exchange = async {
            stream.write_all(request.as_ref()).await.expect("the server reads the whole request");
            read_answer(&mut stream).await
        };
        let shown = || String::from_utf8_lossy(request.as_ref());
        let answer = timeout(ANSWER_TIMEOUT, exchange).await;
        answer.unwrap_or_else(|_| panic!("the server did not respond and close the connection: {:?}", shown()))
    }

    /// Like `send_raw`, but sends in pieces, so that an early response reaches a client that is
    /// still sending.
    pub(super) async fn send_slowly(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut stream = self.connect().await;
        let request = request.as_ref();
        let exchange = async {
            for piece in request.chunks(request.len() / PIECES) {
                stream.write_all(piece).await.expect("the server reads the whole request");
                let _early = timeout(PAUSE, stream.readable()).await;
            }
            read_answer(&mut stream).await
        };
        timeout(ANSWER_TIMEOUT, exchange).await.expect("the server responds and closes the connection")
    }

    /// Returns the head of a request with the required headers. Callers append more headers and the
    /// blank line.
    pub(super) fn head(&self, method: &str, path: &str) -> String {
        let request = self.request(method.parse().expect("a method"), path).build().expect("a request");
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
        for (name, value) in request.headers() {
            let value = value.to_str().expect("the usual headers are ASCII");
            head.extend([name.as_str(), ": ", value, "\r\n"]);
        }
        head
    }
}

/// Reads until the server closes the connection, and parses the response.
pub(super) async fn read_answer(stream: &mut TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.expect("the response arrives before a reset");
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Answer {
    let text = str::from_utf8(bytes).expect("answers are UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).expect("a status line");
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").expect("a header has a colon");
        let name: HeaderName = name.parse().expect("a legal name");
        headers.append(name, HeaderValue::from_str(value).expect("a legal value"));
    }
    Answer { status, headers, text: body.to_owned() }
}
