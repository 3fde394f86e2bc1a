//! `sukkal serve`: exits with 0 after a drain, with 2 and one line on a bad option, else with 1.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tracing::warn;

use super::{BAD_OPTION, fail, log};
use crate::app;
use crate::config::Config;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A TOML file with options; config/default.toml explains each
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the API listens: HOST:PORT, PORT for 127.0.0.1:PORT, or :PORT for every address of the machine
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<String>,
    /// Where messages are kept, such as `embedded:./sukkal-data` or `redis://127.0.0.1:6379`
    #[arg(long, value_name = "URI")]
    store: Option<String>,
}

impl Options {
    /// Returns all options, or the end of the process if one is bad.
    pub(super) fn load(&self) -> Result<Config, ExitCode> {
        let flags = [("bind", self.bind.clone()), ("store", self.store.clone())];
        let config = Config::load(self.config.as_deref(), environment(), &flags);
        config.map_err(|error| fail(BAD_OPTION, &error.to_string()))
    }
}

pub(super) fn run(options: &Options) -> ExitCode {
    let config = match options.load() {
        Ok(config) => config,
        Err(end) => return end,
    };
    if let Err(error) = log::start(&config.log) {
        return fail(BAD_OPTION, &error);
    }
    for warning in &config.warnings {
        warn!("{warning}");
    }
    match serve(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ (app::Error::OpenStore(_) | app::Error::Refused(_) | app::Error::Bind { .. })) => {
            fail(BAD_OPTION, &error.to_string())
        }
        Err(error) => fail(1, &error.to_string()),
    }
}

fn serve(config: &Config) -> Result<(), app::Error> {
    app::runtime(config)?.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // What a terminal sends that is closed.
        let mut hangup = signal(SignalKind::hangup())?;
        // By default it kills. A file that may not become longer counts as a full disk.
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

/// The environment, without what is not text: no option could be.
pub(super) fn environment() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
