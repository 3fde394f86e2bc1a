//! Exit codes, and messages on stderr for the person who ran the command.

use std::process::ExitCode;

/// The exit code for an option that cannot be used.
pub(super) const BAD_OPTION: u8 = 2;

/// Prints one line with the reason, and returns the exit code.
pub(super) fn fail(code: u8, reason: &str) -> ExitCode {
    print_message(reason);
    ExitCode::from(code)
}

/// Prints one line on stderr.
#[expect(clippy::print_stderr, reason = "the log may not be initialized yet, and a person is reading")]
pub(super) fn print_message(message: &str) {
    eprintln!("sukkal: {message}");
}
