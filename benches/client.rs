//! Requests whose status is checked, and a minimal HTTP connection for them.

use std::time::{Duration, Instant};

use reqwest::{RequestBuilder, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use support::sukkal::Api;

/// The project of a [`Connection`].
pub(crate) const PROJECT: &str = "bench";
const PAUSE_BETWEEN_SINGLE_REQUESTS: Duration = Duration::from_millis(5);

/// Sends a request that must get this status.
pub(crate) async fn send(request: RequestBuilder, status: u16) -> Response {
    let response = request.send().await.expect("the service answers");
    assert_eq!(response.status(), status, "{}", response.url());
    response
}

/// Gets a resource again and again for this time, with pauses. Returns the latencies in
/// milliseconds.
pub(crate) async fn single_requests(api: &Api, path: &str, time: Duration) -> Vec<f64> {
    let (begin, mut latencies_ms) = (Instant::now(), Vec::new());
    while begin.elapsed() < time {
        let sent = Instant::now();
        send(api.get(path), 200).await;
        latencies_ms.push(sent.elapsed().as_secs_f64() * 1e3);
        sleep(PAUSE_BETWEEN_SINGLE_REQUESTS).await;
    }
    latencies_ms
}

/// A benchmark opens ten thousand connections on the machine that it measures, so they are small.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    client: String,
}

impl Connection {
    /// Connects to the server at this URL.
    pub(crate) async fn open(url: &str) -> Self {
        Self::open_as(url, 1).await
    }

    /// Connects as the client with the given number.
    pub(crate) async fn open_as(url: &str, number: usize) -> Self {
        let stream = TcpStream::connect(url.trim_start_matches("http://")).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::new(), client: format!("{number:032x}") }
    }

    /// Sends a request and returns the body of the response, whose status must be 2xx.
    pub(crate) async fn request(&mut self, method: &str, path: &str, body: &str) -> Vec<u8> {
        self.send(method, path, body).await;
        self.response().await
    }

    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) {
        let head = self.head(method, path);
        let request = format!("{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(request.as_bytes()).await.unwrap();
    }

    pub(crate) async fn response(&mut self) -> Vec<u8> {
        let head = self.read_to(b"\r\n\r\n").await;
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 20"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        while self.buffer.len() < length {
            self.read_more().await;
        }
        self.buffer.drain(..length).collect()
    }

    /// Starts to follow a feed, as the client with the given number.
    pub(crate) async fn follow(&mut self, path: &str, number: usize) {
        self.client = format!("{:032x}", 2 + number);
        let request = format!("{}Accept: text/event-stream\r\n\r\n", self.head("GET", path));
        self.stream.write_all(request.as_bytes()).await.unwrap();
        self.read_to(b"retry: 1000\n\n").await;
    }

    /// Reads the next message of a feed and returns the time of its post, which its body contains.
    pub(crate) async fn next_posted_us(&mut self) -> u64 {
        loop {
            let line = self.read_to(b"\n").await;
            if let Some(at) = line.windows(5).position(|five| five == b"\"at\",") {
                let digits = line[at + 5..].iter().take_while(|byte| byte.is_ascii_digit());
                return digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
            }
        }
    }

    fn head(&self, method: &str, path: &str) -> String {
        let client = &self.client;
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nClient-ID: {client}\r\nX-Project-ID: {PROJECT}\r\n")
    }

    async fn read_to(&mut self, end: &[u8]) -> Vec<u8> {
        loop {
            if let Some(at) = self.buffer.windows(end.len()).position(|window| window == end) {
                return self.buffer.drain(..at + end.len()).collect();
            }
            self.read_more().await;
        }
    }

    async fn read_more(&mut self) {
        assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "the server has closed the connection");
    }
}
