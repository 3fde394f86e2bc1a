//! The command line. Without a command, `sukkal` serves the API.

#![allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "the documentation of options is the text of --help")]

mod check;
mod compact;
mod log;
mod manual;
mod migrate;
mod ready;
mod rekey;
mod restore;
mod serve;
mod store;
mod upgrade;

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::CompleteEnv;

use sukkal_cli::{bench, client, exit};

use crate::{app, config};

/// A REST messaging service that speaks the Zaqar v2 API, and its command line.
///
/// Without a command, `sukkal` serves the API. The commands `queue`, `message`, `claim`, `dead`,
/// `subscription`, `token`, `project`, `quota`, `backup`, `pool`, `flavor` and `ping` use the API
/// of a service, by default http://127.0.0.1:8888.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten, next_help_heading = "Options of `sukkal serve`")]
    serve: serve::Options,
    /// The flags of a command of the client may also be before the command.
    #[command(flatten)]
    client: client::Flags,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves the API until SIGTERM, SIGINT or SIGHUP. This is the default command
    Serve(serve::Options),
    /// Checks whether the service on this machine is ready, for health checks
    ///
    /// Pass the same options as to `serve`. The exit code is 0 if the service is ready, 1 with the
    /// reason if it is not, and 2 if an option is wrong.
    Ready(serve::Options),
    /// Verifies the integrity of a store
    ///
    /// Verifies that each message is in exactly one state, is counted once, and has a rank of its
    /// own. The exit code is 0 if no errors were found or all were repaired, and 1 otherwise. It is
    /// 2 if an option is wrong or the store cannot be opened.
    Check(check::Options),
    /// Shrinks the file of an embedded store. Stop Sukkal first
    Compact(store::Options),
    /// Creates an embedded store from a backup that `sukkal backup` has written
    ///
    /// The directory of the store must not have one. The exit code is 1 if the backup is damaged or
    /// cannot be restored; there is no store then.
    Restore(restore::Arguments),
    /// Encrypts stored messages with a new key
    ///
    /// After a change of message_encryption_key, encrypts all encrypted messages with the new key,
    /// so that the old one can be removed from message_decryption_keys. A Redis may be in use
    /// meanwhile; stop Sukkal first for an embedded store. The command may be interrupted and
    /// repeated. The exit code is 0 if the old keys are not needed any more, and 1 otherwise. It is
    /// 2 if an option is wrong or the store cannot be opened.
    Rekey(store::Options),
    /// Copies everything from an embedded store to Redis. Stop Sukkal first
    ///
    /// Copies queues, messages with their ids and states, live claims, subscriptions, tokens and
    /// quotas, reads everything again and compares it, and verifies the integrity of the copy. The
    /// Redis must not have data of Sukkal. No process can use it until the migration is complete.
    /// The command may be interrupted and repeated; it then begins anew. The embedded store keeps
    /// its data. The exit code is 0 if the migration is complete, and 1 otherwise. It is 2 if an
    /// option is wrong, or if a store cannot be opened or used.
    Migrate(migrate::Options),
    /// Gives a Redis the layout of this release
    ///
    /// Run it when all processes of the service have this release. Until then, they use the layout
    /// of the release before, and refuse requests that need the new one. The exit code is 1 if a
    /// process of an earlier release uses the store; nothing is changed then. It is 2 if an option
    /// is wrong or the store cannot be opened. An embedded store is upgraded when it is opened.
    Upgrade(store::Options),
    /// Measures throughput and latency of a service that speaks Zaqar v2
    Bench(Box<bench::Options>),
    #[command(flatten)]
    Client(client::Command),
    /// Prints every option of the service with its default value and an explanation
    Config,
    /// Prints a script that completes commands and the names of queues in a shell
    ///
    /// For bash: source <(sukkal completions bash). Names of queues come from the service that the
    /// command would use. The script belongs to this release, so print it again after an upgrade.
    Completions { shell: clap_complete::Shell },
    /// Prints a page of the manual, for example with `sukkal man | man -l -`
    Man(manual::Options),
}

/// Why a command has failed: the exit code, and the reason for the operator.
struct Failure(u8, String);

impl Failure {
    /// The failure of a command that has begun its work. `explain` adds to the reason.
    fn of(error: &app::Error, explain: impl FnOnce(String) -> String) -> Self {
        let reason = error.to_string();
        if error.is_of_options() { Self(exit::BAD_OPTION, reason) } else { Self(exit::FAILED, explain(reason)) }
    }
}

impl From<app::Error> for Failure {
    fn from(error: app::Error) -> Self {
        Self::of(&error, |reason| reason)
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        Self(exit::BAD_OPTION, error.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self(exit::FAILED, error.to_string())
    }
}

/// Runs the command that the process was started with.
#[must_use]
pub fn run() -> ExitCode {
    // The script of `sukkal completions` calls the program with this variable.
    CompleteEnv::with_factory(command).var(manual::COMPLETION_VARIABLE).complete();
    let mut command = command();
    let cli = Cli::from_arg_matches(&command.get_matches_mut()).unwrap_or_else(|error| error.exit());
    if let Err(error) = cli.check_flags() {
        command.error(ErrorKind::ArgumentConflict, error).exit();
    }
    let outcome = match cli.command {
        Some(Command::Serve(options)) => serve::run(&options),
        Some(Command::Ready(options)) => ready::run(&options),
        Some(Command::Check(options)) => check::run(&options),
        Some(Command::Compact(options)) => compact::run(&options),
        Some(Command::Restore(options)) => restore::run(&options),
        Some(Command::Rekey(options)) => rekey::run(&options),
        Some(Command::Migrate(options)) => migrate::run(&options),
        Some(Command::Upgrade(options)) => upgrade::run(&options),
        Some(Command::Bench(options)) => Ok(bench::run(&options)),
        Some(Command::Client(command)) => {
            warn_about_variables();
            Ok(client::run(&command, &cli.client))
        }
        Some(Command::Config) => Ok(manual::text(&config::explained_defaults())),
        Some(Command::Completions { shell }) => Ok(manual::completions(shell)),
        Some(Command::Man(options)) => Ok(manual::man(&options, command)),
        None => serve::run(&cli.serve),
    };
    outcome.unwrap_or_else(|Failure(code, reason)| exit::fail(code, &reason))
}

/// Warns about environment variables whose names resemble those of the commands of the client.
fn warn_about_variables() {
    for (variable, value) in std::env::vars_os() {
        let (variable, value) = (variable.to_string_lossy(), value.to_string_lossy());
        if let Some(meant) = config::client_variable_meant_by(&variable, &value) {
            exit::print_message(&format!("warning: the variable {variable} has no effect; did you mean {meant}?"));
        }
    }
}

fn command() -> clap::Command {
    // The commands of the client pass their flags on to their own commands. `sukkal` does not,
    // because its other commands do not have these flags.
    let command = Cli::command().mut_args(|argument| argument.global(false));
    let is_of_client = |noun: &clap::Command| client::Command::has_subcommand(noun.get_name());
    command.mut_subcommands(|noun| if is_of_client(&noun) { client::with_flags(noun) } else { noun })
}

impl Cli {
    /// Refuses flags before a command that does not use them.
    fn check_flags(&self) -> Result<(), &'static str> {
        let (for_serve, for_client) =
            (self.serve != serve::Options::default(), self.client != client::Flags::default());
        match self.command {
            Some(Command::Client(_)) if for_serve => Err("--config, --bind and --store are options of `sukkal serve`"),
            Some(Command::Client(_)) => Ok(()),
            Some(_) if for_serve || for_client => Err("the options of this command must follow it"),
            None if for_client => Err("the service takes only --config, --bind and --store; a command is missing"),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn each_command_says_what_it_does() {
        let command = command();
        let about: Vec<_> = command.get_subcommands().map(|noun| noun.get_about().map(ToString::to_string)).collect();

        assert!(about.iter().all(Option::is_some), "{about:?}");
        assert_eq!(about.iter().collect::<BTreeSet<_>>().len(), about.len(), "{about:?}");
    }

    #[test]
    fn the_service_does_not_take_the_variables_of_the_client_for_options() {
        let help = command().find_subcommand_mut("ping").unwrap().render_long_help().to_string();
        let words = help.split(|c: char| c != '_' && !c.is_ascii_uppercase());
        let variables: Vec<_> = words.filter(|word| word.starts_with("SUKKAL_")).map(str::to_owned).collect();
        assert_eq!(variables.len(), 11, "{variables:?}");

        let environment = variables.into_iter().map(|name| (name, "x".to_owned()));
        let config = Config::load(None, environment, &[]).unwrap();

        assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    }
}
