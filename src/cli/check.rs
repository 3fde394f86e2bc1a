//! `sukkal check`: verifies the integrity of a store.
//!
//! The exit code is 0 if no errors are left, 1 if errors are left or the check failed, and 2 if an
//! option is wrong.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use super::{Failure, store};
use crate::app::{self, Check};
use crate::config::Config;

#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct Options {
    #[command(flatten)]
    store: store::Options,
    /// Repair what can be repaired, report each repair, and keep what had to be replaced
    #[arg(long)]
    repair: bool,
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let check = check(&options.store.load()?, options.repair)?;
    print_report(&check)?;
    Ok(if check.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[tokio::main]
async fn check(config: &Config, repairs: bool) -> Result<Check, app::Error> {
    app::check(config, repairs).await
}

fn print_report(check: &Check) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "queues: {}, messages: {}", check.queues, check.messages)?;
    for repair in &check.repaired {
        writeln!(out, "repaired: {repair}")?;
    }
    for finding in &check.findings {
        writeln!(out, "{finding}")?;
    }
    let conclusion = match (check.findings.is_empty(), check.queues) {
        (true, 0) => "no errors found, but there are no queues: make sure that this is the store of the service",
        (true, _) => "no errors found",
        (false, _) => "the store is damaged",
    };
    writeln!(out, "{conclusion}")
}
