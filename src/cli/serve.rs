//! `sukkal serve`: serves the API.
//!
//! The exit code is 0 after a drain, 2 with one line on stderr if an option is wrong, and 1 for any
//! other error.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

use super::{Failure, log};
use crate::app;
use crate::config::{self, Config};
use sukkal_cli::exit::BAD_OPTION;

#[derive(Args, Debug, Default, PartialEq)]
pub(super) struct Options {
    /// Configuration file in TOML; config/default.toml explains every option
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the API: HOST:PORT, PORT for 127.0.0.1:PORT, or :PORT for all addresses of the
    /// machine
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// URI of the store, for example `embedded:./sukkal-data` or `redis://127.0.0.1:6379`
    #[arg(long, value_name = "URI")]
    store: Option<String>,
}

impl Options {
    /// Loads all options.
    pub(super) fn load(&self) -> Result<Config, config::Error> {
        let flags = [("bind", self.bind.clone()), ("store", self.store.clone())];
        Config::load(self.config.as_deref(), environment(), &flags)
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let config = options.load()?;
    log::start(&config.log).map_err(|error| Failure(BAD_OPTION, error))?;
    for warning in &config.warnings {
        warn!("{warning}");
    }
    serve(&config)?;
    Ok(ExitCode::SUCCESS)
}

fn serve(config: &Config) -> Result<(), app::Error> {
    app::runtime(config)?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // A terminal sends it when it is closed.
        let mut hangup = signal(SignalKind::hangup())?;
        // By default this signal ends the process. Ignored, a file that has reached the size limit
        // of the process is reported as a full disk.
        let _ignored = signal(SignalKind::from_raw(Signal::XFSZ.as_raw()))?;
        let stop = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                _ = hangup.recv() => {}
            }
        };
        app::serve(config, stop).await
    })
}

/// The environment variables that are valid UTF-8. No option can have a name or value that is not.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
