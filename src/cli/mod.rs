//! The command line. Without a command it serves.

mod bench;
mod check;
mod compact;
mod log;
mod ready;
mod serve;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const BAD_OPTION: u8 = 2;

/// A stateless REST messaging service that speaks the Zaqar v2 API.
#[derive(Debug, Parser)]
#[command(version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Options,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the API until SIGTERM, SIGINT or SIGHUP; the same as no command at all.
    Serve(serve::Options),
    /// Checks whether the service on this machine is ready, for health checks; pass the same options as for `serve`.
    Ready(serve::Options),
    /// Verifies the integrity of a store: each message is in one place, is counted once and has a rank of its own.
    Check(check::Options),
    /// Shrinks the file of an embedded store; stop Sukkal first.
    Compact(store::Options),
    /// Measures a service that speaks Zaqar v2: how much it does and how long each request takes.
    Bench(Box<bench::Options>),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Serve(options)) => serve::run(&options),
        Some(Command::Ready(options)) => ready::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Compact(options)) => compact::run(&options),
        Some(Command::Bench(options)) => bench::run(&options),
        None => serve::run(&cli.serve),
    }
}

/// Says in one line why the process ends with that code.
fn fail(code: u8, reason: &str) -> ExitCode {
    say(reason);
    ExitCode::from(code)
}

#[expect(clippy::print_stderr, reason = "the log may not be there yet, and a person is reading")]
fn say(reason: &str) {
    eprintln!("sukkal: {reason}");
}
