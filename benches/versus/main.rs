//! Sukkal against others and against itself, interleaved in one run. The long form writes
//! `docs/performance.md`; `--quick` and `--only` print.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark speaks to a person at a desk, and counts below 2^53"
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
mod zaqar;

#[allow(dead_code, reason = "the tests' stage, of which this uses a part")]
#[path = "../../tests/support/mod.rs"]
mod support;

use clap::Parser;
use measures::{FULL, NAMES, QUICK};
use results::Results;

/// As the service's, since this program serves too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const PROJECT: &str = "versus";

#[derive(Parser)]
struct Options {
    /// Short runs, and a large queue that is not; prints only
    #[arg(long)]
    quick: bool,
    /// Only these measures; prints only
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Write the document even so
    #[arg(long)]
    write: bool,
    /// How many rounds
    #[arg(long)]
    rounds: Option<usize>,
    /// Serve with this way to post, until killed: what this program starts itself as
    #[arg(long, hide = true, requires = "store")]
    serve: Option<String>,
    #[arg(long, hide = true)]
    store: Option<String>,
    /// What cargo adds
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
