//! The state of a message: whether a claim or pop can take it.

use super::ClientId;

/// State of a message at the time of a query. Times are in microseconds since 1970, by the clock of
/// the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// A claim or pop can take the message.
    Available,
    /// The message was posted with a delay, or returned with one.
    Delayed {
        /// The time at which the message becomes available.
        until_us: u64,
    },
    /// The message is under a live claim.
    Claimed {
        /// The time at which the claim expires, unless it is renewed.
        until_us: u64,
        /// The client that created the claim.
        client: ClientId,
    },
}
