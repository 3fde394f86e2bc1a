//! `sukkal compact`: makes the file of an embedded store as short as it can be. Exits with 2 on a bad option.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{BAD_OPTION, fail, serve};
use crate::app;
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
    match app::compact(&config) {
        Ok((before, after)) => match writeln!(io::stdout().lock(), "{before} bytes before, {after} now") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        },
        Err(error) => fail(BAD_OPTION, &error.to_string()),
    }
}
