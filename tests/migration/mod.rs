//! `sukkal migrate`: afterwards Redis shows what the embedded store showed, whatever happens
//! meanwhile.

pub(crate) mod equality;
mod interruption;
mod refusals;
mod verification;
pub(crate) mod view;
pub(crate) mod workload;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use sukkal::push::client::SystemResolver;
use sukkal_storage::embedded::{EmbeddedStore, Fsync};

use support::redis::child_command;
use support::sukkal::MOVABLE_CLOCK;
use support::test_bed::Server;

/// Options of all services. Without the janitor, nothing happens between requests.
pub(crate) const OPTIONS: [(&str, &str); 7] = [
    MOVABLE_CLOCK,
    ("SUKKAL_AUTH__STRATEGIES", "tokens,none"),
    ("SUKKAL_ADMIN_MODE", "true"),
    ("SUKKAL_JANITOR__PAUSE", "86400"),
    ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8"),
    ("SUKKAL_TRANSPORT__MAX_MESSAGES_PER_PAGE", "1000"),
    ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "the key of all services in these tests"),
];
const COMPLETE: &str = "the migration is complete; start Sukkal with --store ";
const COMPLETE_BEFORE: &str = "the migration was complete before, and nothing was changed";

/// Returns the URI of the embedded store in a folder.
pub(crate) fn embedded(folder: &Path) -> String {
    format!("embedded:{}", folder.display())
}

/// Opens the embedded store in a folder, and serves it in this process.
fn serve_embedded(folder: &Path) -> (EmbeddedStore, Server) {
    let store = EmbeddedStore::open(folder, Fsync::Off).unwrap();
    let server = Server::in_process(&store, &OPTIONS, Arc::new(SystemResolver));
    (store, server)
}

fn command(arguments: &[&str]) -> Command {
    let mut command = child_command(support::sukkal::binary());
    command.args(arguments).envs([MOVABLE_CLOCK]);
    command
}

/// Runs a command, and returns its exit code and what it printed.
pub(crate) fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(arguments).output().unwrap();
    (status.code(), format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)))
}

/// Runs a migration that must be complete afterwards. Returns what it printed.
pub(crate) fn migrate(from: &str, to: &str) -> String {
    let (code, text) = run(&["migrate", "--from", from, "--to", to]);
    assert!(code == Some(0) && text.contains(COMPLETE), "{code:?}: {text}");
    text
}

pub(crate) fn assert_intact(store: &str) {
    let (code, text) = run(&["check", "--store", store]);
    assert!(code == Some(0) && text.contains("no errors found"), "{code:?}: {text}");
}
