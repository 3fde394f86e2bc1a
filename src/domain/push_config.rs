//! The options of push. `[push]` in `config/default.toml` explains each of them.

use serde::Deserialize;

use super::AddressRules;

/// The options of push, which delivers messages to subscribers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct PushConfig {
    /// Maximum number of subscriptions of a queue.
    pub max_subscriptions_per_queue: u32,
    /// Whether subscribers get no messages before they have confirmed the subscription.
    pub require_confirmation: bool,
    /// The addresses, ports and schemes that notifications may be sent to.
    #[serde(flatten)]
    pub addresses: AddressRules,
    /// Maximum number of open connections to all subscribers.
    pub max_connections: usize,
    /// Maximum number of open connections to one host.
    pub max_connections_per_host: usize,
    /// Time for which a subscriber fails before its subscription is disabled, in seconds.
    #[serde(rename = "disable_after")]
    pub disable_after_s: u64,
}
