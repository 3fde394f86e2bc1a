//! WebSockets: chapter 13 of the fact sheet, with a real client over real connections.

mod actions;
mod authentication;
mod autobahn;
mod campaign;
mod credentials;
mod limits;
mod memory;
mod protocol;
mod refusals;
mod subscriptions;
mod unauthenticated;

use serde_json::{Value, json};

use crate::support::socket::Socket;
use crate::support::sukkal::Sukkal;

/// The path on the port of the HTTP API.
const PATH: &str = "/v2/websocket";

/// Starts a server with a store in memory and these options.
fn start(options: &[(&str, &str)]) -> Sukkal {
    Sukkal::start_with("memory:", options)
}

async fn open(sukkal: &Sukkal) -> Socket {
    Socket::open(&sukkal.url(PATH), "p").await
}

/// Posts messages with these bodies, each to live for a minute, and returns their ids.
async fn post(socket: &mut Socket, queue: &str, bodies: &[Value]) -> Vec<String> {
    let messages: Vec<Value> = bodies.iter().map(|body| json!({ "body": body, "ttl": 60 })).collect();
    let (status, body) = socket.ask("message_post", json!({ "queue_name": queue, "messages": messages })).await;
    assert_eq!(status, 201, "{body}");
    body["message_ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// The notification of a message that [`post`] has posted.
fn notification(queue: &str, body: &Value) -> Value {
    json!({ "ttl": 60, "body": body, "Message_Type": "Notification", "queue_name": queue })
}
