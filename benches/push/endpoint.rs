//! A fast endpoint: reads notifications, answers 204 and records when each of them came.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// A running endpoint.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    received: Arc<AtomicUsize>,
    arrivals: mpsc::UnboundedReceiver<Instant>,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (received, (sender, arrivals)) = (Arc::<AtomicUsize>::default(), mpsc::unbounded_channel());
        let counter = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, counter.clone(), sender.clone()));
            }
        });
        Self { url, received, arrivals }
    }

    /// Returns the number of notifications so far.
    pub(crate) fn received(&self) -> usize {
        self.received.load(Ordering::Relaxed)
    }

    /// Returns when the next notification comes.
    pub(crate) async fn next(&mut self) -> Instant {
        self.arrivals.recv().await.unwrap()
    }
}

async fn answer(mut stream: TcpStream, counter: Arc<AtomicUsize>, arrivals: mpsc::UnboundedSender<Instant>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(4_096);
    loop {
        while let Some(length) = request_length(&buffer) {
            buffer.drain(..length);
            counter.fetch_add(1, Ordering::Relaxed);
            let _the_benchmark_has_ended = arrivals.send(Instant::now());
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

/// Returns the length of the first request, if all of it is there.
fn request_length(buffer: &[u8]) -> Option<usize> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&buffer[..head]).unwrap().to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    let length = head + length.trim().parse::<usize>().unwrap();
    (buffer.len() >= length).then_some(length)
}
