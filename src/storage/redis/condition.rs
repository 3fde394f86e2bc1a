//! The condition of a server: whether it can be used, and whether its disk is full. When that changes, one line of the log says so,
//! with the reason.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use tracing::{error, info, warn};

use super::failure::is_said_by_redis;

/// The condition of one server.
pub(super) struct Condition {
    /// The server's host and port, or those of the Sentinels that name it.
    address: String,
    uses_tls: bool,
    /// Its connections.
    clients: Vec<Client>,
    is_reported: bool,
    state: Mutex<State>,
}

/// How soon another reason is logged.
const PAUSE_BETWEEN_LINES: Duration = Duration::from_secs(10);

#[derive(Default)]
struct State {
    reach: Reach,
    /// Whether it has ever answered. Then its address is right, and an error needs no hint about that.
    has_answered: bool,
    /// The last reason that was logged, and when.
    logged: Option<(String, Instant)>,
    /// What the server said when it could not write, if that was last so.
    full_disk: Option<String>,
}

impl State {
    fn is_news(&self, reason: &str) -> bool {
        self.logged.as_ref().is_none_or(|(logged, _)| logged != reason)
    }

    fn is_time(&self) -> bool {
        self.logged.as_ref().is_none_or(|(_, when)| when.elapsed() >= PAUSE_BETWEEN_LINES)
    }
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
        state.has_answered = true;
        match std::mem::replace(&mut state.reach, Reach::Answers) {
            _ if !self.is_reported => {}
            Reach::Away(_) => info!(server = self.address, "the store can be used again"),
            Reach::NotTriedYet | Reach::Answers => info!(server = self.address, "connected to the store"),
        }
    }

    /// Notes why a connection could not be made or was lost. That is no trouble while there is another one.
    pub(super) fn disconnected(&self, reason: &FredError) {
        if self.clients.iter().all(|client| !client.is_connected()) {
            let reason = if self.state().has_answered { words(reason) } else { words_with_hint(reason, self.uses_tls) };
            self.away(&reason);
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
        let was_away = matches!(state.reach, Reach::Away(_));
        state.reach = Reach::Away(reason.to_owned());
        // Reasons may alternate, for instance those of a proxy without a server behind it.
        if self.is_reported && (!was_away || (state.is_news(reason) && state.is_time())) {
            error!(server = self.address, reason, "the store cannot be used");
            state.logged = Some((reason.to_owned(), Instant::now()));
        }
    }

    /// Notes that the server has refused a command for a reason that its operator can remove.
    pub(super) fn refused(&self, reason: &str) {
        let mut state = self.state();
        if self.is_reported && state.is_time() {
            warn!(server = self.address, reason, "the store refuses commands");
            state.logged = Some((reason.to_owned(), Instant::now()));
        }
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

/// What went wrong, for an operator.
fn words(failure: &FredError) -> String {
    let details = failure.details().trim_end_matches('.');
    // `fred` shows errors of the operating system as Rust structures.
    let quoted = |name| details.split_once(name)?.1.split('"').next();
    match failure.kind() {
        _ if is_said_by_redis(failure) => details,
        ErrorKind::Timeout => "it does not answer while a connection is made",
        _ => quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or(details),
    }
    .to_owned()
}

/// The same of a server that has never answered: its address may be wrong.
fn words_with_hint(failure: &FredError, uses_tls: bool) -> String {
    let (words, details) = (words(failure), failure.details());
    match failure.kind() {
        _ if details.contains("unknown command 'SENTINEL'") => {
            format!("{words}: this is not a Sentinel; for a single server use redis://")
        }
        _ if is_said_by_redis(failure) => words,
        ErrorKind::Timeout if uses_tls => {
            "the TLS handshake timed out; if the server does not use TLS, use redis://".to_owned()
        }
        ErrorKind::IO if details.contains("InvalidCertificate") => {
            let (_, certificate) = details.split_once("InvalidCertificate").unwrap_or_default();
            let reason = certificate.trim_matches(['(', ')', ' ', '}']);
            format!("the TLS certificate of the server is not accepted: {reason}")
        }
        ErrorKind::IO if uses_tls && !details.contains("refused") => {
            format!("{words}; if the server does not use TLS, use redis://")
        }
        ErrorKind::IO if details.contains("ConnectionReset") => {
            format!("{words}; if the server uses TLS, use rediss://")
        }
        ErrorKind::Protocol | ErrorKind::Parse => {
            format!("it does not answer as a Redis server does ({words}); check host and port")
        }
        _ => words,
    }
}
