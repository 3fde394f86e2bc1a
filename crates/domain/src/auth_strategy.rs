//! The strategies that find out who sends a request.

use serde::Deserialize;

/// A way to find out who sends a request (`strategies` in `[auth]`).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AuthStrategy {
    /// Everybody is believed.
    None,
    /// A proxy that authenticates the sender describes it in headers.
    Proxy,
    /// Keystone verifies the token in `X-Auth-Token`.
    Keystone,
    /// The token of `Authorization: Bearer` is signed by an identity provider.
    Jwt,
    /// The token is an API key of this service.
    Tokens,
}

impl AuthStrategy {
    /// The names of all strategies, in the order of the variants.
    pub const NAMES: [&str; 5] = ["none", "proxy", "keystone", "jwt", "tokens"];

    /// Returns the name of the strategy.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}
