//! How it stands with a server: whether it can be reached, and whether its disk is full. The operator is told once when that
//! changes, with the reason.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use tracing::{error, info};

use super::failure::is_said_by_redis;

/// How it stands with one server.
pub(super) struct Condition {
    /// The server's host and port, or those of the Sentinels that name it.
    address: String,
    uses_tls: bool,
    /// Its connections.
    clients: Vec<Client>,
    is_reported: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reach: Reach,
    /// What the server said when it could not write, if that was last so.
    full_disk: Option<String>,
}

#[derive(Default, PartialEq, Eq)]
enum Reach {
    #[default]
    NotTriedYet,
    Answers,
    /// It cannot be used, for this reason.
    Away(String),
}

impl Condition {
    pub(super) fn new(config: &Config, clients: Vec<Client>) -> Self {
        let address = config.server.hosts().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Self { address, uses_tls: config.uses_tls(), clients, is_reported: true, state: Mutex::default() }
    }

    /// The same without telling the operator.
    pub(super) fn unreported(config: &Config, clients: Vec<Client>) -> Self {
        Self { is_reported: false, ..Self::new(config, clients) }
    }

    /// Notes that the server has answered, with what it said if it refused a command.
    pub(super) fn answered(&self, refusal: Option<&FredError>) {
        // Before these are over, the server runs no command at all.
        let passing = ["NOAUTH ", "WRONGPASS ", "LOADING "];
        if let Some(refusal) = refusal
            && passing.iter().any(|word| refusal.details().starts_with(word))
        {
            return self.away(refusal.details());
        }
        let mut state = self.state();
        if state.reach == Reach::Answers {
            return;
        }
        match std::mem::replace(&mut state.reach, Reach::Answers) {
            _ if !self.is_reported => {}
            Reach::Away(_) => info!(server = self.address, "the store can be used again"),
            Reach::NotTriedYet | Reach::Answers => info!(server = self.address, "connected to the store"),
        }
    }

    /// Notes why a connection could not be made or was lost. That is no trouble while there is another one.
    pub(super) fn disconnected(&self, reason: &FredError) {
        if self.clients.iter().all(|client| !client.is_connected()) {
            let hint = if self.uses_tls && !is_said_by_redis(reason) { "; the address asks for TLS" } else { "" };
            self.away(&format!("{}{hint}", words(reason)));
        }
    }

    /// Notes that nobody gets an answer.
    pub(super) fn silent(&self) {
        if self.trouble().is_none() {
            self.away("it does not answer");
        }
    }

    /// Notes that the server cannot be used.
    fn away(&self, reason: &str) {
        let mut state = self.state();
        if matches!(&state.reach, Reach::Away(known) if known == reason) {
            return;
        }
        if self.is_reported {
            error!(server = self.address, reason, "the store cannot be used");
        }
        state.reach = Reach::Away(reason.to_owned());
    }

    /// Why the server cannot be used, if that is so.
    pub(super) fn trouble(&self) -> Option<String> {
        match &self.state().reach {
            Reach::Away(reason) => Some(reason.clone()),
            Reach::NotTriedYet | Reach::Answers => None,
        }
    }

    /// Notes that a write failed because the disk is full, or that it did not.
    pub(super) fn wrote(&self, full_disk: Option<&str>) {
        let mut state = self.state();
        match (&state.full_disk, full_disk) {
            (None, Some(reason)) => {
                error!(server = self.address, reason, "the disk of the store is full");
            }
            (Some(_), None) => info!(server = self.address, "the disk of the store has room again"),
            _ => {}
        }
        state.full_disk = full_disk.map(ToOwned::to_owned);
    }

    pub(super) fn has_full_disk(&self) -> bool {
        self.state().full_disk.is_some()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What went wrong, for an operator: `fred` shows errors of the operating system as Rust structures.
fn words(failure: &FredError) -> &str {
    let details = failure.details();
    let quoted = |name| details.split_once(name)?.1.split('"').next();
    match failure.kind() {
        ErrorKind::Timeout => "it does not answer while a connection is made",
        ErrorKind::IO => quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or(details),
        _ => details,
    }
}
