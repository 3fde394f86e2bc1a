//! `[websocket]`: WebSockets.

use serde::Deserialize;

use super::bind::{Bind, OPTIONAL_ADDRESS, optional};
use sukkal_domain::options::{Rule, options};

options! {
    /// `[websocket]`: WebSockets.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct WebSocket {
        /// Address of a separate listener that accepts WebSockets on any path, as Zaqar does on
        /// port 9000. The API serves WebSockets at /v2/websocket too. docs/websocket.md explains
        /// them. Accepted: the same values as for `bind` above, or empty. The default is empty:
        /// there is no separate listener.
        #[serde(deserialize_with = "optional")]
        pub bind: Option<Bind> = "" in OPTIONAL_ADDRESS,
        /// Interval between the pings on a connection, in seconds. A client that has sent nothing
        /// since the last ping is disconnected. Choose a value below the timeout after which
        /// proxies close idle connections. Accepted: 1 to 3600. The default is 30.
        #[serde(rename = "ping_interval")]
        pub ping_interval_s: u64 = 30 in Rule::Integer(1, 3600, "seconds"),
        /// Time after which a connection without a request and without a subscription is closed, in
        /// seconds. Accepted: 1 to 31622400. The default is 3600.
        #[serde(rename = "idle_timeout")]
        pub idle_timeout_s: u64 = 3600 in Rule::DURATION,
        /// Maximum number of WebSockets of the process. At the maximum, a new client takes the
        /// place of one that has not authenticated, or gets a 503. With 0, WebSockets are off.
        /// WebSockets also count towards max_connections of their listener. Accepted: 0 to 1000000.
        /// The default is 12000.
        pub max_connections: usize = 12_000 in Rule::Integer(0, 1_000_000, ""),
        /// Maximum number of requests of one project that are in progress over WebSockets of the
        /// process. A connection has one at a time, which is in progress until its reply is
        /// written. Further requests get a 429. Accepted: 1 to 1000000. The default is 100.
        pub max_requests_per_project: u32 = 100 in Rule::CONNECTIONS;
    }
}
