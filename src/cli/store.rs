//! Which store a command works on, and how it is told so.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{BAD_OPTION, fail, say, serve};
use crate::config::Config;

#[derive(Args, Debug)]
pub(super) struct Options {
    /// A TOML file with options; config/default.toml explains each
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where messages are kept, such as `embedded:./sukkal-data` or `redis://127.0.0.1:6379`
    #[arg(long, value_name = "URI")]
    store: Option<String>,
}

impl Options {
    /// Returns all options, or the end of the process if they cannot be used.
    pub(super) fn load(&self) -> Result<Config, ExitCode> {
        let flags = [("store", self.store.clone())];
        let config = Config::load(self.config.as_deref(), serve::environment(), &flags);
        let config = config.map_err(|error| fail(BAD_OPTION, &error.to_string()))?;
        for warning in &config.warnings {
            say(&format!("warning: {warning}"));
        }
        Ok(config)
    }
}
