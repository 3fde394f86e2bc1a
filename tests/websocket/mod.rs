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
mod warnings;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use sukkal::api::{self, Service};
use sukkal::app;
use sukkal::config::Config;
use sukkal::observability::metrics::ConnectionCounts;
use sukkal_storage::embedded::EmbeddedStore;
use tokio::net::TcpListener;

use support::socket::Socket;
use support::sukkal::Sukkal;

/// The path on the port of the HTTP API.
const PATH: &str = "/v2/websocket";

/// Starts a server with a store in memory and these options.
fn start(options: &[(&str, &str)]) -> Sukkal {
    Sukkal::start_with("memory:", options)
}

async fn open(sukkal: &Sukkal) -> Socket {
    Socket::open(&sukkal.url(PATH), "p").await
}

/// Starts a server in this process, so that the test can move its clock, with a store in memory and
/// these options. Returns the URL of its WebSockets. It sends pings only after an hour.
async fn start_here(options: &[(&str, &str)]) -> String {
    let options = [&[("SUKKAL_WEBSOCKET__PING_INTERVAL", "3600")], options].concat();
    let environment = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let config = Config::load(None, environment, &[]).unwrap();
    let service = app::service(&config, Arc::new(EmbeddedStore::in_memory().unwrap())).unwrap();
    serve_here(service).await
}

/// Serves WebSockets in this process, and returns their URL.
async fn serve_here(service: Service) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}{PATH}", listener.local_addr().unwrap());
    let timeout = Duration::from_secs(60);
    let limits = api::ServerLimits { head_timeout: timeout, idle_timeout: timeout, connections_max: 1_000 };
    let router = api::websocket_router(service);
    tokio::spawn(
        async move { api::serve(listener, router, limits, ConnectionCounts::default(), pending()).await.await },
    );
    url
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
