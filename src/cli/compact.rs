//! `sukkal compact`: makes the file of an embedded store as short as it can be. Exits with 2 on a bad option.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{BAD_OPTION, fail, store};
use crate::app;

pub(super) fn run(options: &store::Options) -> ExitCode {
    let config = match options.load() {
        Ok(config) => config,
        Err(end) => return end,
    };
    match app::compact(&config) {
        Ok((before, after)) => match writeln!(io::stdout().lock(), "{before} bytes before, {after} now") {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(1, &error.to_string()),
        },
        Err(error) => fail(BAD_OPTION, &error.to_string()),
    }
}
