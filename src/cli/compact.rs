//! `sukkal compact`: shrinks the file of an embedded store. The exit code is 2 if the store cannot
//! be compacted.

use std::io::{self, Write};
use std::process::ExitCode;

use super::{Failure, store};
use crate::app;

pub(super) fn run(options: &store::Options) -> Result<ExitCode, Failure> {
    let (before, after) = app::compact(&options.load()?)?;
    writeln!(io::stdout().lock(), "compacted from {before} to {after} bytes")?;
    Ok(ExitCode::SUCCESS)
}
