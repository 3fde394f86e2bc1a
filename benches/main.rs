//! All benchmarks in one program. Each of them answers a question: see `benches/README.md`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a panic is how a benchmark fails, and its numbers are below 2^53"
)]

mod blocking;
mod callgrind;
mod client;
mod console;
mod fairness;
mod fan_out;
mod guard;
mod idle;
mod overload;
mod pools;
mod processes;
mod push;
mod quotas;
mod report;
mod service;
mod sockets;
mod statistics;
mod steady;
mod versus;
mod waiting;
mod wrk;
mod zaqar;

use std::time::Instant;

use clap::{ArgMatches, Args, Command, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tokio::runtime::Runtime;

use self::report::Report;

/// The allocator of the service, because this program also calls its store.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// What runs a benchmark, if its name follows.
const COMMAND: &str = "cargo bench --workspace --bench bench --";

#[derive(Parser)]
#[command(name = "bench", bin_name = COMMAND, disable_help_subcommand = true)]
struct Options {
    #[command(subcommand)]
    action: Action,
    /// Only check within seconds that the benchmark works, and write no document
    #[arg(long, global = true)]
    short: bool,
    /// Added by cargo
    #[arg(long, hide = true, global = true)]
    bench: bool,
}

#[derive(Subcommand)]
enum Action {
    /// How fast is Sukkal compared with other services?
    Versus(versus::Options),
    /// How long do the most expensive requests delay other clients?
    Blocking(blocking::Options),
    /// How fast do waiting clients receive a message, and what do they and event streams cost?
    Waiting(DocumentOptions),
    /// How long do small tenants wait behind a flood, and what do fair queues cost?
    Fairness(DocumentOptions),
    /// What happens with up to 10,000 connections, and how does a flood affect other projects?
    Overload(overload::Options),
    /// How fast are messages delivered to subscribers, and what do subscriptions cost?
    Push(DocumentOptions),
    /// What do idle WebSockets cost, and messages to many of them, compared with event streams?
    Sockets,
    /// What does a project over its rate cost another one, and how far can it exceed a quota?
    Quotas(quotas::Options),
    /// Does the console stay fast with many queues and messages, and what does a tab request?
    Console,
    /// Do file size, memory and latency of the embedded store stay constant under load?
    Steady(steady::Options),
    /// How many instructions do authentication and quotas add to a post?
    Guard,
    /// How many instructions do pools add to a post, a list and a claim?
    Pools,
    /// How much processor time of Redis do idle queues use?
    Idle,
    /// Does each benchmark work? Runs all of them with --short
    Short,
}

/// The options of a benchmark that has a section in a document.
#[derive(Args)]
struct DocumentOptions {
    /// Write the figures into a document in docs
    #[arg(long)]
    write: bool,
    /// Shorter runs, for a first impression
    #[arg(long)]
    quick: bool,
}

/// How long a benchmark runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Full,
    Quick,
    /// Some seconds, which show that the benchmark works, but give no figures.
    Short,
}

impl DocumentOptions {
    fn length(&self, report: &Report) -> Length {
        match (report.is_short, self.quick) {
            (true, _) => Length::Short,
            (false, true) => Length::Quick,
            (false, false) => Length::Full,
        }
    }
}

impl Length {
    /// Returns the value for this length.
    fn choose<T>(self, full: T, quick: T, short: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Short => short,
        }
    }
}

fn main() {
    let arguments = Options::command().subcommand_required(false).get_matches();
    match arguments.subcommand_name() {
        None => Options::command().print_help().expect("the list can be printed"),
        Some("short") => {
            for name in Options::command().get_subcommands().map(Command::get_name).take_while(|name| *name != "short")
            {
                run(&Options::command().get_matches_from(["bench", name, "--short"]));
            }
        }
        Some(_) => run(&arguments),
    }
}

fn run(arguments: &ArgMatches) {
    let options = Options::from_arg_matches(arguments).unwrap_or_else(|error| error.exit());
    let start = Instant::now();
    let mut report = Report::new(options.short);
    Runtime::new().expect("threads can be started").block_on(measure(&options.action, &mut report));
    if options.short {
        println!("{}: works, {:.1} s", arguments.subcommand_name().unwrap_or_default(), start.elapsed().as_secs_f64());
    }
}

async fn measure(action: &Action, report: &mut Report) {
    match action {
        Action::Versus(options) => versus::run(options, report).await,
        Action::Blocking(options) => blocking::run(options, report).await,
        Action::Waiting(options) => waiting::run(options, report).await,
        Action::Fairness(options) => fairness::run(options, report).await,
        Action::Overload(options) => overload::run(options, report).await,
        Action::Push(options) => push::run(options, report).await,
        Action::Sockets => sockets::run(report).await,
        Action::Quotas(options) => quotas::run(options, report).await,
        Action::Console => console::run(report).await,
        Action::Steady(options) => steady::run(options, report).await,
        Action::Guard => guard::run(report).await,
        Action::Pools => pools::run(report).await,
        Action::Idle => idle::run(report).await,
        Action::Short => unreachable!("the caller handles it"),
    }
}
