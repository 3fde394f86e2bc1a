//! Limits of WebSockets.

use std::time::Duration;

/// Limits of WebSockets.
#[derive(Clone, Debug)]
pub struct WebSocketLimits {
    /// Interval between the pings of a connection.
    pub ping_interval: Duration,
    /// Time without a request after which a connection without subscriptions is closed.
    pub idle_timeout: Duration,
    /// Maximum number of connections of the process.
    pub connections_max: usize,
    /// Whether messages are sent back instead of handled, which tests of the protocol need.
    pub echoes: bool,
}

impl Default for WebSocketLimits {
    fn default() -> Self {
        let (ping_interval, idle_timeout) = (Duration::from_secs(30), Duration::from_secs(3600));
        Self { ping_interval, idle_timeout, connections_max: 12_000, echoes: false }
    }
}
