//! Exit codes, and messages on stderr for the person who ran the command.

use std::io::{self, Write};
use std::process::ExitCode;

/// The exit code for a command that has failed for a reason that has no code of its own.
pub const FAILED: u8 = 1;
/// The exit code for an option that cannot be used.
pub const BAD_OPTION: u8 = 2;
/// The exit code of a client if the queue, message, claim or task does not exist, or if no message
/// is available.
pub const NOT_FOUND: u8 = 3;
/// The exit code of a client if the service refuses a request.
pub const REFUSED: u8 = 4;
/// The exit code of a client if the service or its store is unavailable.
pub const UNAVAILABLE: u8 = 5;
/// The exit code of an interrupted process, by the convention of shells.
pub const INTERRUPTED: u8 = 130;

/// Prints one line with the reason, and returns the exit code.
#[must_use]
pub fn fail(code: u8, reason: &str) -> ExitCode {
    print_message(reason);
    ExitCode::from(code)
}

/// Prints one line on stderr. Without a working stderr, nobody reads it, and the exit code must do.
pub fn print_message(message: &str) {
    let _ = io::stderr().write_all(format!("sukkal: {message}\n").as_bytes());
}
