//! A reader of server-sent events, which follows the rules of a browser's `EventSource`.

use reqwest::{RequestBuilder, Response};
use serde_json::Value;

use super::waiting::in_time;

/// A stream of events.
pub struct Events {
    response: Response,
    buffer: Vec<u8>,
}

/// An event with data.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub kind: String,
    pub id: String,
    pub data: Value,
}

impl Events {
    /// Sends a request whose response is a stream.
    pub async fn open(request: RequestBuilder) -> Self {
        let sent = request.header("Accept", "text/event-stream").send();
        let response = in_time("a stream opens", sent).await.expect("the server answers");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, buffer: Vec::new() }
    }

    /// Returns the next event, or `None` when the stream has ended regularly.
    pub async fn next(&mut self) -> Option<Event> {
        in_time("an event arrives", self.read()).await
    }

    /// Returns the bodies of the next messages.
    pub async fn bodies(&mut self, count: usize) -> Vec<Value> {
        let mut bodies = Vec::new();
        while bodies.len() < count {
            bodies.push(self.next().await.expect("the stream goes on").data["body"].take());
        }
        bodies
    }

    /// Waits for a comment line, which only shows that the stream is alive.
    pub async fn heartbeat(&mut self) {
        let heartbeat = async { while !self.block().await.expect("the stream goes on").starts_with(':') {} };
        in_time("a heartbeat arrives", heartbeat).await;
    }

    async fn read(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = parse(&self.block().await?) {
                return Some(event);
            }
        }
    }

    /// Returns the next lines up to an empty one.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\n\n") {
                let block: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return Some(String::from_utf8(block).expect("events are UTF-8"));
            }
            let part = self.response.chunk().await.expect("the stream is not cut off")?;
            self.buffer.extend_from_slice(&part);
        }
    }
}

/// Returns the event of a block, if it has data.
fn parse(block: &str) -> Option<Event> {
    let (mut kind, mut id, mut data) = ("message", "", None);
    for line in block.lines() {
        match line.split_once(':') {
            Some(("event", value)) => kind = value.trim(),
            Some(("id", value)) => id = value.trim(),
            Some(("data", value)) => data = Some(serde_json::from_str(value).expect("data is JSON")),
            _ => {}
        }
    }
    Some(Event { kind: kind.to_owned(), id: id.to_owned(), data: data? })
}
