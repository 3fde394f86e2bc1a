//! Compares Sukkal with Zaqar, `RabbitMQ` and Redis, side by side in one run.
//!
//! `--write` writes sections of `docs/performance.md`.

mod contestants;
mod direct;
mod fill;
mod goals;
mod measures;
mod native;
mod performance;
mod rabbitmq;
mod results;
mod summary;

use std::fmt::Write as _;

use clap::Args;

use self::measures::{FULL, NAMES, QUICK, SHORT};
use self::results::Results;
use crate::report::Report;
use crate::{DocumentOptions, Length};

#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    document: DocumentOptions,
    /// Only these measurements
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Number of rounds
    #[arg(long)]
    rounds: Option<usize>,
}

pub(crate) async fn run(options: &Options, report: &mut Report) {
    let length = options.document.length(report);
    let mut pace = length.choose(FULL, QUICK, SHORT);
    pace.rounds = options.rounds.unwrap_or(pace.rounds);
    let mut names: Vec<&str> = options.only.iter().map(String::as_str).collect();
    if length == Length::Short {
        names = vec!["post-64"];
    } else if names.is_empty() {
        names = NAMES.to_vec();
    }

    let mut results = Results::default();
    for name in names {
        let measure = measures::take(name, pace).await;
        writeln!(report, "{name}: {}", measure.table()).unwrap();
        let has_failed = measure.rows.iter().any(|row| row.median("failed").is_some_and(|count| count > 0.0));
        assert!(length != Length::Short || !has_failed, "requests fail: {}", measure.table());
        results.measures.push(measure);
    }
    writeln!(report, "{}", performance::goals(&results)).unwrap();
    if options.document.write || report.is_short {
        performance::write(report, &results, pace);
    }
}
