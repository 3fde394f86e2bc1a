//! Measures deliveries to a fast subscriber on this machine, and what subscriptions cost.
//!
//! `cargo bench --bench push -- --write` writes `docs/push-figures.md`. A service that fails has rows
//! without figures, and a footnote with the reason.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a benchmark prints for a person, and its numbers are below 2^53"
)]

mod contestant;
mod deployment;
mod endpoint;
mod figures;
mod isolation;
mod latency;
mod memory;
mod posts;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../versus/processes.rs"]
mod processes;
#[path = "../prose.rs"]
mod prose;
#[allow(dead_code, reason = "uses a part of the support code of the tests")]
#[path = "../../tests/support/mod.rs"]
mod support;
mod throughput;
#[allow(dead_code, reason = "uses a part of the module")]
#[path = "../versus/zaqar.rs"]
mod zaqar;

use std::fs;
use std::time::Duration;

use clap::Parser;

const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/push-figures.md");
/// Longer than a service works after the last notification.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Parser)]
struct Options {
    /// Write docs/push-figures.md
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
    let mut text = String::new();
    let mut add = |section: String| {
        println!("{section}");
        text += &section;
    };
    add("# Figures of push\n\nWritten by `cargo bench --bench push -- --write`. The endpoint is on the same machine, \
         and answers at once. It shares the cores with the service and Redis.\n"
        .to_owned());
    add(throughput::measure(options.quick).await);
    add(latency::measure(options.quick).await);
    add(posts::measure(options.quick).await);
    add(memory::measure(options.quick).await);
    add(isolation::measure(options.quick).await);
    if options.write {
        fs::write(DOCUMENT, prose::wrap(&text)).unwrap();
    }
}
