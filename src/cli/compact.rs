//! `sukkal compact`: shrinks the file of an embedded store. The exit code is 2 if the store cannot
//! be compacted.

use std::io::{self, Write};
use std::process::ExitCode;

use super::store;
use crate::app;
use sukkal_cli::exit::{BAD_OPTION, fail};

pub(super) fn run(options: &store::Options) -> ExitCode {
    let config = match options.load() {
        Ok(config) => config,
        Err(code) => return code,
    };
    match app::compact(&config) {
        Ok((before, after)) => match writeln!(io::stdout().lock(), "compacted from {before} to {after} bytes") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        },
        Err(error) => fail(BAD_OPTION, &error.to_string()),
    }
}
