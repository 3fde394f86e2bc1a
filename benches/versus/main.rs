//! Compares Sukkal with Zaqar, `RabbitMQ`, Redis and variants of itself, side by side in one run.
//!
//! A full run writes `docs/performance.md`. With `--quick` or `--only`, the results are only
//! printed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

mod contestants;
mod direct;
mod fill;
mod goals;
mod idle;
mod measures;
mod native;
mod processes;
mod rabbitmq;
mod report;
mod results;
mod ways;
mod wrk;
#[allow(dead_code, reason = "uses a part of the module")]
mod zaqar;

#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../../tests/support/mod.rs"]
mod support;

use clap::Parser;
use measures::{FULL, NAMES, QUICK};
use results::Results;

/// The allocator of the service, because this program also serves variants of the service.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROJECT: &str = "versus";

#[derive(Parser)]
struct Options {
    /// Short runs with a smaller large queue; only prints
    #[arg(long)]
    quick: bool,
    /// Only these measurements; only prints
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Write the document even with --quick or --only
    #[arg(long)]
    write: bool,
    /// Number of rounds
    #[arg(long)]
    rounds: Option<usize>,
    /// Serve with this way to post until killed; this program starts itself with this option
    #[arg(long, hide = true, requires = "store")]
    serve: Option<String>,
    #[arg(long, hide = true)]
    store: Option<String>,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    match (&options.serve, &options.store) {
        (Some(way), Some(store)) => ways::serve(way, store),
        _ => take_measures(&options),
    }
}

#[tokio::main]
async fn take_measures(options: &Options) {
    let mut pace = if options.quick { QUICK } else { FULL };
    pace.rounds = options.rounds.unwrap_or(pace.rounds);
    let whole = !options.quick && options.only.is_empty();
    let mut names: Vec<&str> = options.only.iter().map(String::as_str).collect();
    if names.is_empty() {
        names = NAMES.to_vec();
    }

    let mut results = Results::default();
    for name in names {
        let measure = measures::take(name, pace).await;
        println!("{name}: {}", measure.table());
        results.measures.push(measure);
    }
    println!("{}", report::goals(&results));
    if whole || options.write {
        report::write(&results, pace);
    }
}
