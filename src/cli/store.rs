//! The options of commands that work on a store: `check`, `compact`, `restore` and `rekey`.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, serve};
use crate::config::Config;
use sukkal_cli::exit::print_message;

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
    /// Loads all options, and prints their warnings.
    pub(super) fn load(&self) -> Result<Config, Failure> {
        let flags = [("store", self.store.clone())];
        let config = Config::load(self.config.as_deref(), serve::environment(), &flags)?;
        print_warnings(&config);
        Ok(config)
    }
}

pub(super) fn print_warnings(config: &Config) {
    for warning in &config.warnings {
        print_message(&format!("warning: {warning}"));
    }
}
