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

use super::log;
use crate::app;
use crate::config::Config;
use sukkal_cli::exit::{BAD_OPTION, fail};

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
    /// Loads all options. Prints an error and returns the exit code if they cannot be used.
    pub(super) fn load(&self) -> Result<Config, ExitCode> {
        let flags = [("bind", self.bind.clone()), ("store", self.store.clone())];
        let config = Config::load(self.config.as_deref(), environment(), &flags);
        config.map_err(|error| fail(BAD_OPTION, &error.to_string()))
    }
}

pub(super) fn run(options: &Options) -> ExitCode {
    let config = match options.load() {
        Ok(config) => config,
        Err(code) => return code,
    };
    if let Err(error) = log::start(&config.log) {
        return fail(BAD_OPTION, &error);
    }
    for warning in &config.warnings {
        warn!("{warning}");
    }
    match serve(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(
            error @ (app::Error::OpenStore(_)
            | app::Error::RedisTls(_)
            | app::Error::Refused(_)
            | app::Error::Bind { .. }
            | app::Error::Exposed(_)
            | app::Error::MovableClock(_)
            | app::Error::Authentication(_)
            | app::Error::AdminToken(_)
            | app::Error::AuditLog(_)
            | app::Error::ListenerTls(_)),
        ) => fail(BAD_OPTION, &error.to_string()),
        Err(error) => fail(1, &error.to_string()),
    }
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
