//! Subscribers: a fast one, which answers 204 and records when each notification came, and dead
//! ones.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};

const ANSWER: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
/// If no notification comes for this time, no more are awaited.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// A running endpoint. Connections and their tasks end with the program.
pub(crate) struct Endpoint {
    pub(crate) url: String,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
}

/// A notification.
struct Arrival {
    /// The number of the message, which is its body.
    number: Option<u64>,
    at: Instant,
}

impl Endpoint {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, arrivals) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, sender.clone()));
            }
        });
        Self { url, arrivals }
    }

    /// Waits for as many notifications of messages with this number, and ignores others. Returns
    /// when the last of them came.
    pub(crate) async fn wait_for(&mut self, number: u64, expected: usize) -> Result<Instant, String> {
        let (mut count, mut last) = (0, Instant::now());
        loop {
            while count < expected
                && let Ok(arrival) = self.arrivals.try_recv()
            {
                if arrival.number == Some(number) {
                    (count, last) = (count + 1, arrival.at);
                }
            }
            if count == expected {
                return Ok(last);
            }
            if last.elapsed() > SILENCE_MAX {
                return Err(format!("only {count} of {expected} notifications came"));
            }
            // To wake up for each notification would take more of the processor.
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Waits for as many notifications of the message with this number, and ignores others. Wakes
    /// up for each. Returns when each of them came.
    pub(crate) async fn wait_for_each(&mut self, number: u64, expected: usize) -> Result<Vec<Instant>, String> {
        let give_up = Instant::now() + SILENCE_MAX;
        let mut times = Vec::with_capacity(expected);
        while times.len() < expected {
            match timeout_at(give_up, self.arrivals.recv()).await {
                Ok(Some(arrival)) if arrival.number == Some(number) => times.push(arrival.at),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => {
                    let count = times.len();
                    return Err(format!("only {count} of {expected} notifications of message {number} came"));
                }
            }
        }
        Ok(times)
    }
}

/// Starts dead subscribers, which accept connections and never answer. Each has an address of its
/// own, so a limit on the connections to one host does not help. Returns their URLs.
pub(crate) async fn dead_subscribers(count: usize) -> Vec<String> {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.push(stream);
        }
    });
    (1..=count).map(|host| format!("http://127.0.1.{host}:{port}")).collect()
}

async fn answer(mut stream: TcpStream, arrivals: mpsc::UnboundedSender<Arrival>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::with_capacity(4_096);
    loop {
        while let Some((head, length)) = lengths(&buffer) {
            let arrival = Arrival { number: message_number(&buffer[head..length]), at: Instant::now() };
            buffer.drain(..length);
            let _measurement_has_ended = arrivals.send(arrival);
            if stream.write_all(ANSWER).await.is_err() {
                return;
            }
        }
        if !matches!(stream.read_buf(&mut buffer).await, Ok(1..)) {
            return;
        }
    }
}

/// Returns the lengths of the head and of all of the first request, if all of it is there.
fn lengths(buffer: &[u8]) -> Option<(usize, usize)> {
    let head = buffer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = str::from_utf8(&buffer[..head]).unwrap().to_ascii_lowercase();
    let length = text.lines().find_map(|line| line.strip_prefix("content-length:")).unwrap();
    let length = head + length.trim().parse::<usize>().unwrap();
    (buffer.len() >= length).then_some((head, length))
}

/// Returns the number in the `body` of a notification.
fn message_number(notification: &[u8]) -> Option<u64> {
    let text = str::from_utf8(notification).ok()?;
    let body = text.split_once(r#""body""#)?.1.trim_start_matches([':', ' ', '"']);
    body.split_once('"')?.0.parse().ok()
}
