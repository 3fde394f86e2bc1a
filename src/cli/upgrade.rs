//! `sukkal upgrade`: gives a store the layout of this release. The exit code is 1 if it cannot be
//! upgraded now, and 2 if an option is wrong or the store cannot be opened.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Failure, store};
use crate::app;
use crate::config::Config;

pub(super) fn run(options: &store::Options) -> Result<ExitCode, Failure> {
    let is_upgraded = upgrade(&options.load()?)?;
    let result = if is_upgraded { "the store is upgraded" } else { "the store has the layout of this release already" };
    writeln!(io::stdout().lock(), "{result}")?;
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn upgrade(config: &Config) -> Result<bool, app::Error> {
    app::upgrade(config).await
}
