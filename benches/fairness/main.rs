//! What fair queues are worth and what they cost: `cargo bench --bench fairness`; `-- --write` writes `docs/fairness.md` and
//! `docs/fairness.svg`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a benchmark speaks to a person at a desk, and counts below 2^53"
)]

#[allow(dead_code, reason = "this uses a part")]
#[path = "../waiting/client.rs"]
mod client;
mod costs;
mod flood;
mod plot;
#[allow(dead_code, reason = "this uses a part")]
#[path = "../versus/processes.rs"]
mod processes;
mod scene;
#[allow(dead_code, reason = "the tests' stage, of which this uses a part")]
#[path = "../../tests/support/mod.rs"]
mod support;

use std::fs;

use clap::Parser;

use self::scene::Scene;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fairness.md");
const PLOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fairness.svg");

#[derive(Parser)]
struct Options {
    /// Write docs/fairness.md and docs/fairness.svg
    #[arg(long)]
    write: bool,
    /// Shorter, for a look
    #[arg(long)]
    quick: bool,
    /// What cargo adds
    #[arg(long, hide = true)]
    bench: bool,
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let mut text = String::from(
        "# What fair queues are worth, and what they cost\n\nWritten by `cargo bench --bench fairness -- --write`; clients, \
         servers and stores share the machine's cores. What stands \"beside 1 shard\" is the median of the rounds' ratios.\n",
    );
    let scenes = [Scene::redis(), Scene::cluster(), Scene::embedded()];
    let backlog = if options.quick { 5_000 } else { 100_000 };
    let floods = flood::measure(&mut text, &scenes, backlog).await;
    let rounds = if options.quick { 3 } else { 9 };
    costs::of_empty_polls(&mut text, &scenes, rounds).await;
    costs::of_pages(&mut text, &scenes, rounds).await;
    costs::of_posts_and_claims(&mut text, &scenes, rounds).await;
    println!("{text}");
    if options.write {
        fs::write(DOCUMENT, text).unwrap();
        fs::write(PLOT, plot::of(&floods).into_string()).unwrap();
    }
}
