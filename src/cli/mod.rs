//! The command line. Without a command it serves.

mod serve;

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
    /// Serves the API until SIGTERM or SIGINT; the same as no command at all.
    Serve(serve::Options),
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Some(Command::Serve(options)) => serve::run(&options),
        None => serve::run(&cli.serve),
    }
}
