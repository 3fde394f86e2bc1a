//! `sukkal restore`: creates an embedded store from a backup. The exit code is 1 if the backup
//! cannot be restored, and 2 if an option is wrong.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::store;
use crate::app;
use sukkal_cli::exit::{BAD_OPTION, FAILED, fail};

#[derive(Args, Debug)]
pub(super) struct Arguments {
    /// The backup, which `sukkal backup` has written
    file: PathBuf,
    #[command(flatten)]
    store: store::Options,
}

pub(super) fn run(arguments: &Arguments) -> ExitCode {
    let config = match arguments.store.load() {
        Ok(config) => config,
        Err(code) => return code,
    };
    let name = arguments.file.display();
    let backup = match File::open(&arguments.file) {
        Ok(backup) => backup,
        Err(error) => return fail(BAD_OPTION, &format!("cannot read {name}: {error}")),
    };
    match app::restore(backup, &config) {
        Ok(records) => match writeln!(io::stdout().lock(), "restored {records} records to {}", config.store) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(FAILED, &error.to_string()),
        },
        Err(error @ app::Error::NoFile(_)) => fail(BAD_OPTION, &error.to_string()),
        Err(error) => fail(FAILED, &format!("cannot restore {name}: {error}")),
    }
}
