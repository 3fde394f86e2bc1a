//! `sukkal check`: exits with 0 if the store is as it should be, now that everything found is mended, with 1 if not, with 2 on a bad
//! option.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;

use super::{BAD_OPTION, fail, store};
use crate::app::{self, Check};
use crate::config::Config;

#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct Options {
    #[command(flatten)]
    store: store::Options,
    /// Repairs what can be repaired without data loss, and reports it
    #[arg(long)]
    repair: bool,
}

pub(super) fn run(options: &Options) -> ExitCode {
    let config = match options.store.load() {
        Ok(config) => config,
        Err(end) => return end,
    };
    match check(&config, options.repair) {
        Ok(check) => match show(&check) {
            Ok(()) if check.findings.is_empty() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
            Err(error) => fail(1, &error.to_string()),
        },
        Err(error @ (app::Error::OpenStore(_) | app::Error::Refused(_))) => fail(BAD_OPTION, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
}

#[tokio::main]
async fn check(config: &Config, repairs: bool) -> Result<Check, app::Error> {
    app::check(config, repairs).await
}

fn show(check: &Check) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "queues: {}, messages: {}", check.queues, check.messages)?;
    for mended in &check.mended {
        writeln!(out, "repaired: {mended}")?;
    }
    for finding in &check.findings {
        writeln!(out, "{finding}")?;
    }
    let verdict = if check.findings.is_empty() { "no errors found" } else { "the store is damaged" };
    writeln!(out, "{verdict}")
}
