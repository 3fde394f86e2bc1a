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

pub use self::flags::Flags;

use self::completion::with_queue_names;
use self::environment::Environment;
use self::error::Error;
use self::flags::HEADING;
use self::http::Service;
use self::output::{Output, printable};
use super::exit::fail;

/// Shown below the options of each command.
const EXIT_CODES: &str = "\
Exit codes: 0 success; 1 failure; 2 an option or the input is wrong; 3 not found, or no message is available; \
4 the service has refused the request; 5 the service is unavailable; 130 interrupted.";

/// The position of `--topic` after the flags of all commands.
const TOPIC_ORDER: usize = 10;

/// A noun of the command line.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists, creates, changes, pauses, moves, purges and deletes queues or topics
    Queue(QueueNoun<queue::Command>),
    /// Posts, lists, follows and deletes messages
    Message(QueueNoun<message::Command>),
    /// Claims messages, lists, renews and releases claims, and returns single messages
    #[command(subcommand)]
    Claim(claim::Command),
    /// Lists dead letters, and moves them back to their queues
    #[command(subcommand)]
    Dead(dead::Command),
    /// Lists, creates, pauses and deletes subscriptions, which send messages to URLs and mail
    /// addresses
    Subscription(QueueNoun<subscription::Command>),
    /// Creates, lists and deletes tokens, with which clients authenticate
    #[command(subcommand)]
    Token(token::Command),
    /// Lists projects. Needs the role admin
    #[command(subcommand)]
    Project(project::Command),
    /// Shows the usage of a project, and sets and removes its limits
    #[command(subcommand)]
    Quota(quota::Command),
    /// Lists, creates, changes and deletes pools, the stores that keep queues. Needs the role admin
    #[command(subcommand)]
    Pool(pool::Command),
    /// Lists flavors, and creates and deletes them, which needs the role admin
    #[command(subcommand)]
    Flavor(flavor::Command),
    /// Names services, with their projects and credentials
    #[command(subcommand)]
    Context(context::Command),
    /// Writes a backup of an embedded store that is in use to a file. Needs the role admin
    ///
    /// The service must run with `admin_mode`. The backup has everything that was stored when the
    /// command began, of all projects. `sukkal restore` creates a store from it.
    Backup(backup::Options),
    /// Checks that the service and its store respond
    Ping,
}

/// A noun whose commands work with queues, or with topics instead.
#[derive(Args, Debug)]
pub struct QueueNoun<C: Subcommand> {
    /// Use topics instead of queues
    #[arg(long, global = true, display_order = TOPIC_ORDER, help_heading = HEADING)]
    topic: bool,
    #[command(subcommand)]
    command: C,
}

impl<C: Subcommand> QueueNoun<C> {
    fn select(&self, service: Service) -> Service {
        if self.topic { service.of_topics() } else { service }
    }
}

/// Adds to a command what all of them have: the flags, the exit codes, and completed names.
#[must_use]
pub fn with_flags(command: clap::Command) -> clap::Command {
    let flags = Flags::augment_args(clap::Command::default());
    with_queue_names(command.args(flags.get_arguments()).after_help(EXIT_CODES))
}

/// Runs a command. The exit code says why it has failed.
#[must_use]
pub fn run(command: &Command, flags: &Flags) -> ExitCode {
    match run_to_end(command, flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_closed_output() => ExitCode::SUCCESS,
        Err(error) => fail(error.code(), &printable(&error.to_string())),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn run_to_end(command: &Command, flags: &Flags) -> Result<(), Error> {
    let environment = Environment::of_process();
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
        Command::Claim(command) => claim::run(command, &service().await?, &mut output).await,
        Command::Dead(command) => dead::run(command, &service().await?, &mut output).await,
        Command::Subscription(noun) => {
            subscription::run(&noun.command, &noun.select(service().await?), &mut output).await
        }
        Command::Token(command) => {
            let service = async || Ok(service().await?.in_role("admin"));
            token::run(command, service, &mut output).await
        }
        Command::Project(command) => project::run(command, &service().await?.in_role("admin"), &mut output).await,
        Command::Quota(command) => quota::run(command, &service().await?.in_role("admin"), &mut output).await,
        Command::Pool(command) => pool::run(command, &service().await?.in_role("admin"), &mut output).await,
        Command::Flavor(command) => flavor::run(command, &service().await?.in_role("admin"), &mut output).await,
        Command::Context(command) => context::run(command, flags, &environment, &mut output),
        Command::Backup(options) => backup::run(options, &service().await?.in_role("admin"), &mut output).await,
        Command::Ping => ping::run(&service().await?, &mut output).await,
    };
    // What a command has printed before it failed is part of its result.
    outcome.and(output.flush())
}
