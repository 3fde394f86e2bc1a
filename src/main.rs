//! The `sukkal` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sukkal::cli::run()
}
