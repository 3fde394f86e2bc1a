//! Completes the names of queues in a shell, which calls this program for that.

use std::env;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap::{Arg, Args, Command, FromArgMatches};
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use tokio::time::timeout;

use super::environment::Environment;
use super::error::Error;
use super::flags::Flags;
use super::http::Service;
use super::queues::QueueList;

/// Maximum number of names that a shell gets.
const NAMES_MAX: u64 = 200;
/// Maximum time for which the user waits.
const PATIENCE: Duration = Duration::from_secs(2);

/// Lets the arguments of a command that are names of queues be completed.
pub(super) fn with_queue_names(command: Command) -> Command {
    let complete = |argument: Arg| match argument.get_id().as_str() {
        "queue" | "queues" => argument.add(ArgValueCompleter::new(candidates)),
        _ => argument,
    };
    command.mut_args(complete).mut_subcommands(with_queue_names)
}

/// Returns the queues whose names begin with a text. There are none if the service cannot be asked:
/// a message would garble the line that the user is typing.
fn candidates(begun: &OsStr) -> Vec<CompletionCandidate> {
    let names = begun.to_str().and_then(|begun| names(begun).ok());
    names.unwrap_or_default().into_iter().map(CompletionCandidate::new).collect()
}

#[tokio::main(flavor = "current_thread")]
async fn names(begun: &str) -> Result<Vec<String>, Error> {
    // The command line follows the arguments for this program.
    let words: Vec<OsString> = env::args_os().skip_while(|word| word != "--").skip(1).collect();
    if words.iter().any(|word| is_unclear(word)) {
        return Ok(Vec::new());
    }
    let mut settings = flags(&words).settings(&Environment::of_process())?;
    settings.retry = Duration::ZERO;
    let service = Service::new(&settings)?;
    let service = if words.iter().any(|word| word == "--topic") { service.of_topics() } else { service };
    let mut list = QueueList::new(&service, begun, false, Some(NAMES_MAX));
    let read = async {
        let mut names = Vec::new();
        while let Some(queues) = list.next().await? {
            names.extend(queues.iter().filter_map(|queue| queue["name"].as_str()).map(str::to_owned));
        }
        Ok(names)
    };
    timeout(PATIENCE, read).await.unwrap_or(Ok(Vec::new()))
}

/// Returns whether a word may not be what the command will get: a shell passes quotes and variables
/// as they were typed, and bash splits words at colons and equals signs. A wrong service must not
/// be asked.
fn is_unclear(word: &OsStr) -> bool {
    word.to_str().is_none_or(|word| matches!(word, ":" | "=") || word.contains(['$', '\'', '"', '\\', '`']))
}

/// Returns those of the flags on an unfinished command line that say which service to ask.
fn flags(words: &[OsString]) -> Flags {
    let command = Flags::augment_args(Command::new("sukkal")).arg(Arg::new("other").num_args(0..)).ignore_errors(true);
    let matches = command.try_get_matches_from(words);
    matches.and_then(|matches| Flags::from_arg_matches(&matches)).unwrap_or_default()
}
