//! Measures the benefit and the cost of fair queues.
//!
//! `cargo bench --bench fairness -- --write` writes `docs/fairness.md` and `docs/fairness.svg`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../waiting/client.rs"]
mod client;
mod costs;
mod deployment;
mod flood;
mod plot;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../versus/processes.rs"]
mod processes;
#[path = "../prose.rs"]
mod prose;
#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::fs;

use clap::Parser;

use self::deployment::Deployment;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fairness.md");
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fairness.svg");

#[derive(Parser)]
struct Options {
    /// Write docs/fairness.md and docs/fairness.svg
    #[arg(long)]
    write: bool,
    /// Shorter runs, for a first impression
    #[arg(long)]
    quick: bool,
    /// Added by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let mut text = String::from(
        "# Benefit and cost of fair queues\n\nWritten by `cargo bench --bench fairness -- --write`. Clients, servers and \
         stores share the cores of one machine. \"Beside 1 shard\" is the ratio to a queue with one shard: the median of the \
         ratios in each round.\n",
    );
    let deployments = [Deployment::redis(), Deployment::cluster(), Deployment::embedded()];
    let backlog = if options.quick { 5_000 } else { 100_000 };
    let floods = flood::measure(&mut text, &deployments, backlog).await;
    let rounds = if options.quick { 3 } else { 9 };
    costs::of_empty_polls(&mut text, &deployments, rounds).await;
    costs::of_pages(&mut text, &deployments, rounds).await;
    costs::of_posts_and_claims(&mut text, &deployments, rounds).await;
    println!("{text}");
    if options.write {
        fs::write(DOCUMENT, prose::wrap(&text)).unwrap();
        fs::write(PLOT, plot::of(&floods).into_string()).unwrap();
    }
}
