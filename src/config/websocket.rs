//! `[websocket]`: WebSockets.

use serde::Deserialize;

use super::bind::Bind;
use super::values::optional_bind;

/// `[websocket]`: WebSockets.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct WebSocket {
    /// Address of the separate listener for WebSockets; `None` for no separate listener.
    #[serde(deserialize_with = "optional_bind")]
    pub bind: Option<Bind>,
    /// Interval between the pings of a connection, in seconds.
    #[serde(rename = "ping_interval")]
    pub ping_interval_s: u64,
    /// Time after which a connection without requests and subscriptions is closed, in seconds.
    #[serde(rename = "idle_timeout")]
    pub idle_timeout_s: u64,
    /// Maximum number of WebSockets of the process.
    pub max_connections: usize,
    /// Maximum number of requests of one project that are in progress.
    pub max_requests_per_project: u32,
}
