//! Commands for the people who operate and use queues: `sukkal queue`, `message`, `claim`, `dead`,
//! `subscription`, `token`, `project`, `quota`, `backup`, `pool`, `flavor`, `context` and `ping`.
//!
//! They know the service by its HTTP API only, so they work with any Sukkal and, where its API
//! allows, with Zaqar. There is one file per noun. `flags.rs` decides where requests go, `http.rs`
//! sends them, and `output.rs` prints the results.

mod arguments;
mod backup;
mod claim;
mod completion;
mod connection;
mod context;
mod contexts;
mod credentials;
mod dead;
mod environment;
mod error;
mod events;
mod flags;
mod flavor;
mod http;
mod input;
mod message;
mod output;
mod pages;
mod ping;
mod pool;
mod post;
mod project;
mod queue;
mod queues;
mod quota;
mod redrive;
mod replacement;
mod response;
mod subscription;
pub(crate) mod table;
mod tail;
mod tls_failure;
mod token;
mod view;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use zeroize::Zeroizing;

pub use self::completion::with_queue_names;
pub use self::flags::Flags;

use self::environment::Environment;
use self::error::Error;
use self::http::Service;
use self::output::{Output, printable};
use super::exit::fail;

/// Shown below the options of each command.
const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 failure; 2 an option or the input is wrong; 3 not found, or no message is available; \
4 the service has refused the request; 5 the service is unavailable; 130 interrupted.";

/// A noun of the command line.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists, creates, changes, pauses, moves, purges and deletes queues or topics
    #[command(after_help = EXIT_CODES)]
    Queue(QueueNoun<queue::Command>),
    /// Posts, lists, follows and deletes messages
    #[command(after_help = EXIT_CODES)]
    Message(QueueNoun<message::Command>),
    /// Claims messages, lists, renews and releases claims, and returns single messages
    #[command(after_help = EXIT_CODES)]
    Claim(Noun<claim::Command>),
    /// Lists dead letters, and moves them back to their queues
    #[command(after_help = EXIT_CODES)]
    Dead(Noun<dead::Command>),
    /// Lists, creates, pauses and deletes subscriptions, which send messages to URLs and mail
    /// addresses
    #[command(after_help = EXIT_CODES)]
    Subscription(QueueNoun<subscription::Command>),
    /// Creates, lists and deletes tokens, with which clients authenticate
    #[command(after_help = EXIT_CODES)]
    Token(Noun<token::Command>),
    /// Lists projects. Needs the role admin
    #[command(after_help = EXIT_CODES)]
    Project(Noun<project::Command>),
    /// Shows the usage of a project, and sets and removes its limits
    #[command(after_help = EXIT_CODES)]
    Quota(Noun<quota::Command>),
    /// Lists, creates, changes and deletes pools, the stores that keep queues. Needs the role admin
    #[command(after_help = EXIT_CODES)]
    Pool(Noun<pool::Command>),
    /// Lists flavors, and creates and deletes them, which needs the role admin
    #[command(after_help = EXIT_CODES)]
    Flavor(Noun<flavor::Command>),
    /// Names services, with their projects and credentials
    #[command(after_help = EXIT_CODES)]
    Context(Noun<context::Command>),
    /// Writes a backup of an embedded store that is in use to a file. Needs the role admin
    ///
    /// The service must run with `admin_mode`. The backup has everything that was stored when the
    /// command began, of all projects. `sukkal restore` creates a store from it.
    #[command(after_help = EXIT_CODES)]
    Backup(backup::Options),
    /// Checks that the service and its store respond
    #[command(after_help = EXIT_CODES)]
    Ping(Flags),
}

/// The verbs of a noun, with the flags of all commands.
#[derive(Args, Debug)]
pub struct Noun<C: Subcommand> {
    #[command(flatten)]
    flags: Flags,
    #[command(subcommand)]
    command: C,
}

/// A noun whose commands work with queues, or with topics instead.
#[derive(Args, Debug)]
pub struct QueueNoun<C: Subcommand> {
    #[command(flatten)]
    flags: Flags,
    /// Use topics instead of queues
    #[arg(long, global = true)]
    topic: bool,
    #[command(subcommand)]
    command: C,
}

impl<C: Subcommand> QueueNoun<C> {
    fn select(&self, service: Service) -> Service {
        if self.topic { service.of_topics() } else { service }
    }
}

/// Runs a command. The exit code says why it has failed. `new_token` makes tokens that a service
/// accepts.
#[must_use]
pub fn run(command: &Command, new_token: fn() -> Zeroizing<String>) -> ExitCode {
    match run_to_end(command, new_token) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => fail(error.code(), &printable(&error.to_string())),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run_to_end(command: &Command, new_token: fn() -> Zeroizing<String>) -> Result<(), Error> {
    let environment = Environment::of_process();
    let flags = command.flags();
    let mut output = Output::new(flags.json(&environment)?, &environment);
    let service = async || {
        let service = Service::new(&flags.settings(&environment)?)?;
        service.check_project().await?;
        Ok::<_, Error>(service)
    };
    let outcome = match command {
        Command::Queue(noun @ QueueNoun { command: command @ queue::Command::Move { .. }, .. }) => {
            queue::run(command, &noun.select(service().await?).in_role("admin"), &mut output).await
        }
        Command::Queue(noun) => queue::run(&noun.command, &noun.select(service().await?), &mut output).await,
        Command::Message(noun) => message::run(&noun.command, &noun.select(service().await?), &mut output).await,
        Command::Claim(noun) => claim::run(&noun.command, &service().await?, &mut output).await,
        Command::Dead(noun) => dead::run(&noun.command, &service().await?, &mut output).await,
        Command::Subscription(noun) => {
            subscription::run(&noun.command, &noun.select(service().await?), &mut output).await
        }
        Command::Token(noun) => {
            let service = async || Ok(service().await?.in_role("admin"));
            token::run(&noun.command, service, new_token, &mut output).await
        }
        Command::Project(noun) => project::run(&noun.command, &service().await?.in_role("admin"), &mut output).await,
        Command::Quota(noun) => quota::run(&noun.command, &service().await?.in_role("admin"), &mut output).await,
        Command::Pool(noun) => pool::run(&noun.command, &service().await?.in_role("admin"), &mut output).await,
        Command::Flavor(noun) => flavor::run(&noun.command, &service().await?.in_role("admin"), &mut output).await,
        Command::Context(noun) => context::run(&noun.command, flags, &environment, &mut output),
        Command::Backup(options) => backup::run(options, &service().await?.in_role("admin"), &mut output).await,
        Command::Ping(_) => ping::run(&service().await?, &mut output).await,
    };
    // What a command has printed before it failed is part of its result.
    outcome.and(output.flush())
}

impl Command {
    fn flags(&self) -> &Flags {
        match self {
            Self::Queue(noun) => &noun.flags,
            Self::Message(noun) => &noun.flags,
            Self::Claim(noun) => &noun.flags,
            Self::Dead(noun) => &noun.flags,
            Self::Subscription(noun) => &noun.flags,
            Self::Token(noun) => &noun.flags,
            Self::Project(noun) => &noun.flags,
            Self::Quota(noun) => &noun.flags,
            Self::Pool(noun) => &noun.flags,
            Self::Flavor(noun) => &noun.flags,
            Self::Context(noun) => &noun.flags,
            Self::Backup(options) => &options.flags,
            Self::Ping(flags) => flags,
        }
    }
}
