//! The options of commands that work on a store: `check`, `compact`, `restore` and `rekey`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::serve;
use crate::config::Config;
use sukkal_cli::exit::{BAD_OPTION, fail, print_message};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Configuration file in TOML; config/default.toml explains every option
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// URI of the store, for example `embedded:./sukkal-data` or `redis://127.0.0.1:6379`
    #[arg(long, value_name = "URI")]
    store: Option<String>,
}

impl Options {
    /// Loads all options. Prints an error and returns the exit code if they cannot be used.
    pub(super) fn load(&self) -> Result<Config, ExitCode> {
        let flags = [("store", self.store.clone())];
        let config = Config::load(self.config.as_deref(), serve::environment(), &flags);
        let config = config.map_err(|error| fail(BAD_OPTION, &error.to_string()))?;
        for warning in &config.warnings {
            print_message(&format!("warning: {warning}"));
        }
        Ok(config)
    }
}
