//! The command line. Without a command, `sukkal` serves the API.

mod bench;
mod check;
mod compact;
mod exit;
mod log;
mod ready;
mod serve;
mod store;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Serves the API until SIGTERM, SIGINT or SIGHUP. This is the default command
    Serve(serve::Options),
    /// Checks whether the service on this machine is ready, for health checks
    ///
    /// Pass the same options as to `serve`. The exit code is 0 if the service is ready, and 1 with
    /// the reason if it is not.
    Ready(serve::Options),
    /// Verifies the integrity of a store
    ///
    /// Verifies that each message is in exactly one state, is counted once, and has a rank of its
    /// own. The exit code is 0 if no errors were found or all were repaired, and 1 otherwise.
    Check(check::Options),
    /// Shrinks the file of an embedded store. Stop Sukkal first
    Compact(store::Options),
    /// Measures throughput and latency of a service that speaks Zaqar v2
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
