//! The options of `sukkal bench`.

use std::num::NonZero;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper::http::uri::Scheme;

use super::stats::Kind;
use crate::duration::duration;

/// Number of producers if no connections of any kind are requested.
const PRODUCERS: usize = 64;
/// Number of messages posted before a run with observers or workers, by default.
const PREFILL: usize = 1_000;

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
pub struct Options {
    /// URL of the service, without /v2
    #[arg(default_value = "http://127.0.0.1:8888", value_parser = url)]
    url: Uri,
    /// The same as an option
    #[arg(long = "url", value_name = "URL", conflicts_with = "url", value_parser = url)]
    url_option: Option<Uri>,
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
    pub(super) batch: usize,
    /// Maximum number of messages in a page and in a claim
    #[arg(long, value_name = "N", default_value = "10", value_parser = at_least_one())]
    pub(super) limit: usize,
    /// Number of queues: producers choose one at random, observers stay with one, workers take
    /// turns
    #[arg(long, value_name = "N", default_value = "1", value_parser = at_least_one())]
    pub(super) queues: usize,
    /// Prefix of the queue names [default: bench- and random characters]
    ///
    /// The run creates the queues PREFIX-0, PREFIX-1, … if they do not exist, and deletes those
    /// that it created.
    #[arg(long, value_name = "PREFIX")]
    pub(super) queue: Option<String>,
    /// Project that the queues belong to
    #[arg(long, value_name = "ID", default_value = "bench")]
    pub(super) project: HeaderValue,
    /// Number of messages to post before the run [default: 1000 with observers or workers, else 0]
    #[arg(long, value_name = "N")]
    prefill: Option<usize>,
    /// Number of threads that send requests [default: half of the cores]
    #[arg(long, value_name = "N", value_parser = at_least_one())]
    threads: Option<usize>,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub(super) json: bool,
    /// Also write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE.html")]
    pub(super) report: Option<PathBuf>,
}

impl Options {
    /// URL of the service.
    pub(super) fn url(&self) -> &Uri {
        self.url_option.as_ref().unwrap_or(&self.url)
    }

    /// URL of the service without a slash at its end, as text.
    pub(super) fn url_text(&self) -> String {
        self.url().to_string().trim_end_matches('/').to_owned()
    }

    /// The number of connections of each kind, for the kinds with at least one.
    pub(super) fn connections(&self) -> Vec<(Kind, usize)> {
        let others = self.observe + self.claim;
        let produce = self.produce.unwrap_or(if others == 0 { PRODUCERS } else { 0 });
        let all = [(Kind::Produce, produce), (Kind::Observe, self.observe), (Kind::Claim, self.claim)];
        all.into_iter().filter(|(_, connections)| *connections > 0).collect()
    }

    /// Number of messages to post before the run.
    pub(super) fn prefill(&self) -> usize {
        self.prefill.unwrap_or(if self.observe + self.claim > 0 { PREFILL } else { 0 })
    }

    pub(super) fn threads(&self) -> usize {
        self.threads.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get).div_ceil(2))
    }
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn url(text: &str) -> Result<Uri, String> {
    let url: Uri = text.parse().map_err(|error| format!("{error}"))?;
    if url.scheme() != Some(&Scheme::HTTP) && url.scheme() != Some(&Scheme::HTTPS) {
        return Err("the URL must begin with http:// or https://".to_owned());
    }
    if url.query().is_some() || url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err("the URL may have a host, a port and a path, but no user and no query".to_owned());
    }
    Ok(url)
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 =
        text.parse().map_err(|_| "it must be a number of requests per second, for example 500".to_owned())?;
    if rate.is_finite() && rate > 0.0 { Ok(rate) } else { Err("it must be greater than 0".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_that_cannot_be_measured_are_refused() {
        for text in ["http://[::1]:8888/", "https://queues.example/messaging/", "HTTP://h"] {
            assert!(url(text).is_ok(), "{text:?}");
        }
        for text in ["ftp://h", "h:80", "/v2", "http://u:p@h", "http://h/?q=1", ""] {
            assert!(url(text).is_err(), "{text:?}");
        }
    }
}
