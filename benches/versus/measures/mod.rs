//! The measurements. In each of them, the contestants run side by side and are measured in turn,
//! round by round.

pub(crate) mod bytes;
pub(crate) mod claims;
pub(crate) mod embedded;
pub(crate) mod idle;
mod lists;
pub(crate) mod posts;
pub(crate) mod size;

use crate::versus::results::Measure;

/// The length of the runs, the number of rounds, and the sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) rounds: usize,
    /// Without services that take long to start.
    pub(crate) is_short: bool,
    /// Duration of a run that is measured.
    pub(crate) seconds: u32,
    /// Duration of the warm-up before a run.
    pub(crate) warmup_s: u32,
    /// Number of messages in the queue that is compared with a queue of 1,000 messages.
    pub(crate) large: usize,
    /// Number of messages in the embedded store.
    pub(crate) embedded: usize,
    /// Number of messages whose memory is measured.
    pub(crate) weighed: usize,
}

pub(crate) const FULL: Pace = Pace {
    rounds: 5,
    is_short: false,
    seconds: 4,
    warmup_s: 1,
    large: 10_000_000,
    embedded: 1_000_000,
    weighed: 40_000,
};
pub(crate) const QUICK: Pace =
    Pace { rounds: 2, is_short: false, seconds: 2, warmup_s: 1, large: 100_000, embedded: 20_000, weighed: 4_000 };
/// For `post-64`.
pub(crate) const SHORT: Pace = Pace { rounds: 1, is_short: true, seconds: 1, ..QUICK };

/// Body size of a message of 1 KB, in bytes.
pub(crate) const KB: usize = 1024;
/// Body size of a small message, in bytes.
pub(crate) const SMALL: usize = 100;

/// The names of all measurements, in the order of the document.
pub(crate) const NAMES: [&str; 12] = [
    "post-64",
    "post-3000",
    "post-durable",
    "post-1",
    "queues",
    "list",
    "claim",
    "claim-ahead",
    "bytes",
    "idle",
    "embedded-size",
    "size",
];

/// Performs a measurement.
pub(crate) async fn take(name: &str, pace: Pace) -> Measure {
    match name {
        "post-64" => posts::against_all("post-64", 64, pace).await,
        "post-3000" => posts::against_all("post-3000", 3000, pace).await,
        "post-durable" => posts::durable(pace).await,
        "post-1" => posts::alone(pace).await,
        "queues" => posts::to_many_queues(pace).await,
        "list" => lists::after_a_marker(pace).await,
        "claim" => claims::and_deletions(pace).await,
        "claim-ahead" => claims::after_claimed(pace).await,
        "bytes" => bytes::per_message(pace).await,
        "idle" => idle::connections(pace).await,
        "embedded-size" => embedded::with_many(pace).await,
        "size" => size::of_the_queue(pace).await,
        _ => panic!("there is no measurement {name:?}; there are {NAMES:?}"),
    }
}
