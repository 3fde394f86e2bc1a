//! The options of `sukkal bench`.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::stats::Kind;
use super::target::Target;
use crate::cli::duration::duration;

/// Number of producers if no connections of any kind are requested.
const PRODUCERS: usize = 64;
/// Number of messages posted before a run with observers or workers, by default.
const PREFILL: u64 = 1_000;

/// Shown below the options.
const METHOD: &str = "\
By default the loop is closed: each connection sends its next request when the previous one has been answered, so a slow \
service gets fewer requests. With --rate the loop is open: requests are due at fixed moments, and latency counts from \
these moments. Requests that wait behind a stall therefore count the time that they wait (this corrects coordinated \
omission).

Latencies and rates cover requests that were answered with 2xx; all other requests are counted as errors. Responses \
during the warm-up are not counted. The exit code is 1 if no request was answered with 2xx.";

/// What to measure, how to measure it, and how to show the results.
#[derive(Args, Debug)]
#[command(after_long_help = METHOD)]
pub(in crate::cli) struct Options {
    /// URL of the service, without /v2
    #[arg(default_value = "http://127.0.0.1:8888")]
    url: Target,
    /// The same as an option
    #[arg(long = "url", value_name = "URL", conflicts_with = "url")]
    url_option: Option<Target>,
    /// Number of connections that post messages [default: 64 if --observe and --claim are 0]
    #[arg(long, value_name = "N")]
    produce: Option<usize>,
    /// Number of connections that read a queue page by page, and start again at its end
    #[arg(long, value_name = "N", default_value_t = 0)]
    observe: usize,
    /// Number of connections that claim messages and delete them
    #[arg(long, value_name = "N", default_value_t = 0)]
    claim: usize,
    /// Duration of the measurement
    #[arg(long, value_name = "DURATION", default_value = "10", value_parser = duration)]
    pub(super) duration: Duration,
    /// Duration of the warm-up before the measurement
    #[arg(long, value_name = "DURATION", default_value = "2", value_parser = duration)]
    pub(super) warmup: Duration,
    /// Open loop: requests per second of each kind, over all its connections (deletes follow
    /// claims)
    #[arg(long, value_name = "R", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Length of the body of each message
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    pub(super) message_bytes: usize,
    /// Number of messages in each post
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one())]
    pub(super) batch: u64,
    /// Maximum number of messages in a page and in a claim
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one())]
    pub(super) limit: u64,
    /// Number of queues: producers choose one at random, observers stay with one, workers take
    /// turns
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one())]
    queues: u64,
    /// Prefix of the queue names [default: bench- and random characters]
    ///
    /// The run creates the queues PREFIX-0, PREFIX-1, … if they do not exist, and deletes those
    /// that it created.
    #[arg(long, value_name = "PREFIX")]
    pub(super) queue: Option<String>,
    /// Project that the queues belong to
    #[arg(long, value_name = "ID", default_value = "bench")]
    pub(super) project: String,
    /// Number of messages to post before the run [default: 1000 with observers or workers, else 0]
    #[arg(long, value_name = "N")]
    prefill: Option<u64>,
    /// Number of threads that send requests [default: half of the cores]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    threads: Option<u64>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(super) json: bool,
    /// Also write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// URL of the service.
    pub(super) fn url(&self) -> &Target {
        self.url_option.as_ref().unwrap_or(&self.url)
    }

    /// The number of connections of each kind, for the kinds with at least one.
    pub(super) fn connections(&self) -> Vec<(Kind, usize)> {
        let others = self.observe + self.claim;
        let produce = self.produce.unwrap_or(if others == 0 { PRODUCERS } else { 0 });
        let all = [(Kind::Produce, produce), (Kind::Observe, self.observe), (Kind::Claim, self.claim)];
        all.into_iter().filter(|(_, connections)| *connections > 0).collect()
    }

    /// Number of messages to post before the run.
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

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 =
        text.parse().map_err(|_| "it must be a number of requests per second, for example 500".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("it must be greater than 0".to_owned()) }
}
