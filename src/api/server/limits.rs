//! Limits on the connections of a listener.

use std::time::Duration;

/// Limits on the connections of a listener.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Maximum time for a client to send the head of a request.
    pub head_timeout: Duration,
    /// Maximum time between two requests of a connection.
    pub idle_timeout: Duration,
    /// Maximum number of open connections.
    pub connections_max: usize,
}
