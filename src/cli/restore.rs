//! `sukkal restore`: creates an embedded store from a backup. The exit code is 1 if the backup
//! cannot be restored, and 2 if an option is wrong.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Failure, store};
use crate::app;
use sukkal_cli::exit::BAD_OPTION;

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The backup, which `sukkal backup` has written
    file: PathBuf,
    #[command(flatten)]
    store: store::Options,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let config = arguments.store.load()?;
    let name = arguments.file.display();
    let unreadable = |error| Failure(BAD_OPTION, format!("cannot read {name}: {error}"));
    let backup = File::open(&arguments.file).map_err(unreadable)?;
    let unusable = |error| Failure::of(&error, |reason| format!("cannot restore {name}: {reason}"));
    let records = app::restore(backup, &config).map_err(unusable)?;
    writeln!(io::stdout().lock(), "restored {records} records to {}", config.store)?;
    Ok(ExitCode::SUCCESS)
}
