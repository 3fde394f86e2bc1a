//! What a run is asked to do.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::tally::Kind;
use super::target::Target;

/// Producers, when no connections of any kind are asked for.
const PRODUCERS: usize = 64;
/// What is there to find, when nobody says how much.
const PREFILL: u64 = 1_000;

/// Shown below the options.
const METHOD: &str = "\
A closed loop sends a connection's next request when the last one is answered, so a slow service is asked less often. With \
--rate the loop is open: requests are due at fixed moments, and each latency counts from there, so what waits behind a \
stall counts as waiting (coordinated omission is corrected).

Latencies and rates are of requests that were answered with 2xx; others are counted as errors. What is answered \
during the warm-up is not counted. The exit code is 1 when nothing was answered well.";

/// What to measure, how, and what to show of it.
#[derive(Args, Debug)]
#[command(after_long_help = METHOD)]
pub(in crate::cli) struct Options {
    /// Where the service is, without /v2
    #[arg(default_value = "http://127.0.0.1:8888")]
    pub(super) url: Target,
    /// Connections that post messages [default: 64 if no other kind is asked for]
    #[arg(long, value_name = "N")]
    produce: Option<usize>,
    /// Connections that follow a queue's feed by marker, page by page, and begin again at its end
    #[arg(long, value_name = "N", default_value_t = 0)]
    observe: usize,
    /// Connections that claim messages and delete them
    #[arg(long, value_name = "N", default_value_t = 0)]
    claim: usize,
    /// How long to measure
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds)]
    pub(super) duration: Duration,
    /// How long to run before that
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub(super) warmup: Duration,
    /// Open loop: requests a second over all connections of each kind (claims bring their deletes along)
    #[arg(long, value_name = "R", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Length of a message's body, a string
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(super) message_bytes: usize,
    /// Messages a post
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one())]
    pub(super) batch: u64,
    /// Messages a page and a claim, at most
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one())]
    pub(super) limit: u64,
    /// Queues: each post picks one at random, observers keep to one, claimers go round
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one())]
    queues: u64,
    /// What queue names begin with [default: bench- and some random letters]
    ///
    /// PREFIX-0, PREFIX-1, … are created if missing; those that this run has created are deleted at its end.
    #[arg(long, value_name = "PREFIX")]
    pub(super) queue: Option<String>,
    /// The project that the queues belong to
    #[arg(long, value_name = "ID", default_value = "bench")]
    pub(super) project: String,
    /// Messages posted before anything is measured [default: 1000 if there are observers or claimers]
    #[arg(long, value_name = "N")]
    prefill: Option<u64>,
    /// Threads to send from [default: half of the cores, as the service may need the others]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    threads: Option<u64>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(super) json: bool,
    /// Also write a page with plots, which needs no network to view
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// The connections of each kind that is asked for.
    pub(super) fn connections(&self) -> Vec<(Kind, usize)> {
        let others = self.observe + self.claim;
        let produce = self.produce.unwrap_or(if others == 0 { PRODUCERS } else { 0 });
        let all = [(Kind::Produce, produce), (Kind::Observe, self.observe), (Kind::Claim, self.claim)];
        all.into_iter().filter(|(_, connections)| *connections > 0).collect()
    }

    /// How many messages to post before anything is measured.
    pub(super) fn prefill(&self) -> u64 {
        self.prefill.unwrap_or(if self.observe + self.claim > 0 { PREFILL } else { 0 })
    }

    pub(super) fn queues(&self) -> usize {
        usize::try_from(self.queues).unwrap_or(usize::MAX)
    }

    pub(super) fn threads(&self) -> usize {
        let half = available_parallelism().map_or(1, NonZero::get).div_euclid(2).max(1);
        self.threads.and_then(|threads| usize::try_from(threads).ok()).unwrap_or(half)
    }
}

fn at_least_one() -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(1..)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("the least is above 0".to_owned()) }
}
