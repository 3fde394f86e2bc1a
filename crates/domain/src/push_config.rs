//! The options of push: `[push]`.

use serde::Deserialize;

use super::AddressRules;
use crate::options::rule::YEAR_S;
use crate::options::{Rule, options};

options! {
    /// The options of push, which delivers messages to subscribers.
    #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
    pub struct PushConfig {
        //! Push delivers the messages of queues to the subscribers of their subscriptions. The
        //! options apply to each process of a deployment, so all processes should have the same
        //! values.

        /// Maximum number of subscriptions of a queue. Accepted: 1 to 100000. The default is 1000.
        pub max_subscriptions_per_queue: u32 = 1000 in Rule::Integer(1, 100_000, "");

        /// Delivers messages to a subscriber only after it has confirmed the subscription. Sukkal
        /// sends it a request to confirm, which is signed. Without secret_key in [signed_url], the
        /// option has no effect. Accepted: true or false. The default is false.
        pub require_confirmation: bool = false in Rule::Boolean;

        /// The addresses, ports and schemes that notifications may be sent to.
        #[serde(flatten)]
        pub addresses: AddressRules;

        /// Maximum number of connections to all subscribers that are used at the same time. Up to
        /// the same number of idle connections may stay open for 30 seconds. One project uses at
        /// most a quarter of them. Accepted: 1 to 1000000. The default is 1024.
        pub max_connections: usize = 1024 in Rule::CONNECTIONS,
        /// Maximum number of open connections to one host. Accepted: 1 to 1000000. The default is
        /// 64.
        pub max_connections_per_host: usize = 64 in Rule::CONNECTIONS;

        /// Time for which every attempt to notify a subscriber fails before its subscription is
        /// disabled, in seconds. Accepted: 60 to 31622400. The default is 432000 (5 days).
        #[serde(rename = "disable_after")]
        pub disable_after_s: u64 = 432_000 in Rule::Integer(60, YEAR_S, "seconds");
    }
}
