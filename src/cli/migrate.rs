//! `sukkal migrate`: copies everything from an embedded store to Redis.
//!
//! The exit code is 0 if the migration is complete, 1 if it is not, and 2 if an option is wrong, or
//! if a store cannot be opened or used.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{Failure, serve, store};
use crate::app::{self, Check, Counts, Migrated, MigrationStep, StoreUri};
use crate::config::Config;
use sukkal_cli::exit::{BAD_OPTION, print_message};

#[derive(Args, Debug)]
pub(super) struct Options {
    /// Configuration file in TOML; config/default.toml explains every option
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// URI of the embedded store to copy: `embedded:PATH`
    #[arg(long, value_name = "URI")]
    from: String,
    /// URI of the Redis to copy to, for example `redis://127.0.0.1:6379` [default: the option store
    /// of the configuration]
    #[arg(long, value_name = "URI")]
    to: Option<String>,
}

impl Options {
    /// Loads all options, with the target as the configured store.
    fn load(&self) -> Result<(StoreUri, Config), Failure> {
        // The text may contain a password, so it is not shown.
        let parse = |option: &str, uri: &str| {
            uri.parse::<StoreUri>().map_err(|error| Failure(BAD_OPTION, format!("{option} is invalid: {error}")))
        };
        let mut config = Config::load(self.config.as_deref(), serve::environment(), &[])?;
        let from = parse("--from", &self.from)?;
        if let Some(to) = &self.to {
            config.store = parse("--to", to)?;
        }
        store::print_warnings(&config);
        Ok((from, config))
    }
}

pub(super) fn run(options: &Options) -> Result<ExitCode, Failure> {
    let (from, config) = options.load()?;
    let repeatable = |reason| format!("{reason}; the migration is not complete and can be repeated");
    let result = match migrate(&from, &config).map_err(|error| Failure::of(&error, repeatable))? {
        Migrated::Now => format!("the migration is complete; start Sukkal with --store {}", config.store),
        Migrated::Before => "the migration was complete before, and nothing was changed; what the embedded store has \
                             received since is not in Redis"
            .to_owned(),
    };
    writeln!(io::stdout().lock(), "{result}")?;
    Ok(ExitCode::SUCCESS)
}

#[tokio::main]
async fn migrate(from: &StoreUri, config: &Config) -> Result<Migrated, app::Error> {
    app::migrate(from, config, |step| print_message(&describe(step))).await
}

fn describe(step: &MigrationStep) -> String {
    match step {
        MigrationStep::SourceVerified(Check { queues, messages, .. }) => {
            format!("the embedded store has {queues} queues and {messages} messages, and no errors")
        }
        MigrationStep::Copied(counts) => format!("copied {}", describe_counts(counts)),
        MigrationStep::Compared(counts) => format!("compared {}: all are equal", describe_counts(counts)),
        MigrationStep::TargetVerified(Check { queues, messages, .. }) => {
            format!("Redis has {queues} queues and {messages} messages, and no errors")
        }
    }
}

fn describe_counts(counts: &Counts) -> String {
    let Counts { queues, messages, claims, subscriptions, retries, tasks, outcomes, tokens } = counts;
    format!(
        "{queues} queues, {messages} messages, {claims} claims, {subscriptions} subscriptions, {retries} retries, \
         {tasks} tasks, {outcomes} idempotency keys, {tokens} tokens"
    )
}
