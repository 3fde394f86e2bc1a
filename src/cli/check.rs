//! `sukkal check`: exits with 0 if the store is what it should be, with 1 if not, with 2 on a bad option.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{BAD_OPTION, fail, serve};
use crate::app::{self, Check};
use crate::config::Config;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A TOML file with options; config/default.toml explains each
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where messages are kept, such as `embedded:./sukkal-data`
    #[arg(long, value_name = "URI")]
    store: Option<String>,
}

pub(super) fn run(options: &Options) -> ExitCode {
    let flags = [("store", options.store.clone())];
    let config = match Config::load(options.config.as_deref(), serve::environment(), &flags) {
        Ok(config) => config,
        Err(error) => return fail(BAD_OPTION, &error.to_string()),
    };
    match check(&config) {
        Ok(check) => match show(&check) {
            Ok(()) if check.findings.is_empty() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
            Err(error) => fail(1, &error.to_string()),
        },
        Err(error @ (app::Error::StoreUri(_) | app::Error::OpenStore(_))) => fail(BAD_OPTION, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
}

#[tokio::main]
async fn check(config: &Config) -> Result<Check, app::Error> {
    app::check(config).await
}

fn show(check: &Check) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{} queues, {} messages", check.queues, check.messages)?;
    for finding in &check.findings {
        writeln!(out, "{finding}")?;
    }
    let verdict = if check.findings.is_empty() { "all is as it should be" } else { "the store is damaged" };
    writeln!(out, "{verdict}")
}
