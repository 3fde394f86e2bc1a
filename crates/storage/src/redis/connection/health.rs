//! The health of a server: whether it can be used, and whether its disk is full. A change is logged
//! once, with the reason.

use std::time::{Duration, Instant};

use fred::clients::Client;
use fred::error::{Error as FredError, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::Config;
use parking_lot::Mutex;
use tracing::{error, info, warn};

use super::failure::is_redis_reply;
use crate::redis::tls;
use crate::redis::uri::shown;

/// The health of one server.
pub(super) struct Health {
    /// Host and port of the server.
    address: String,
    uses_tls: bool,
    /// The connections to the server.
    clients: Vec<Client>,
    is_logged: bool,
    state: Mutex<HealthState>,
}

/// Minimum time between two log lines with different reasons.
const PAUSE_BETWEEN_LOG_LINES: Duration = Duration::from_secs(10);

#[derive(Default)]
struct HealthState {
    availability: Availability,
    /// Whether the server has ever replied. Then its address is right, and an error needs no hint
    /// about it.
    has_replied: bool,
    /// The reason that was logged last, and when.
    last_logged: Option<(String, Instant)>,
    /// The error reply to the last write, if it failed because the disk was full.
    full_disk: Option<String>,
}

impl HealthState {
    fn is_new(&self, reason: &str) -> bool {
        self.last_logged.as_ref().is_none_or(|(last_logged, _)| last_logged != reason)
    }

    fn may_log(&self) -> bool {
        self.last_logged.as_ref().is_none_or(|(_, when)| when.elapsed() >= PAUSE_BETWEEN_LOG_LINES)
    }
}

#[derive(Default, PartialEq, Eq)]
enum Availability {
    #[default]
    Unknown,
    Available,
    /// The server cannot be used, for this reason.
    Unavailable(String),
}

impl Health {
    pub(super) fn new(config: &Config, clients: Vec<Client>) -> Self {
        let address = config.server.hosts().iter().map(shown).collect::<Vec<_>>().join(", ");
        Self { address, uses_tls: config.uses_tls(), clients, is_logged: true, state: Mutex::default() }
    }

    /// The same without logging.
    pub(super) fn unlogged(config: &Config, clients: Vec<Client>) -> Self {
        Self { is_logged: false, ..Self::new(config, clients) }
    }

    /// Records that the server has replied. `refusal` is the error reply, if there was one.
    pub(super) fn note_reply(&self, refusal: Option<&FredError>) {
        // Until the causes of these replies are removed, the server runs no command at all.
        let blocking = ["NOAUTH ", "WRONGPASS ", "LOADING "];
        if let Some(refusal) = refusal
            && blocking.iter().any(|word| refusal.details().starts_with(word))
        {
            return self.mark_unavailable(refusal.details());
        }
        let mut state = self.state.lock();
        if state.availability == Availability::Available {
            return;
        }
        state.has_replied = true;
        match std::mem::replace(&mut state.availability, Availability::Available) {
            _ if !self.is_logged => {}
            Availability::Unavailable(_) => info!(server = self.address, "the store can be used again"),
            Availability::Unknown | Availability::Available => info!(server = self.address, "connected to the store"),
        }
    }

    /// Records why a connection could not be made or was lost. The server is unavailable only if it
    /// has no other connection.
    pub(super) fn note_disconnection(&self, reason: &FredError) {
        if self.clients.iter().all(|client| !client.is_connected()) {
            let reason = if self.state.lock().has_replied {
                describe(reason)
            } else {
                describe_with_hint(reason, self.uses_tls)
            };
            self.mark_unavailable(&reason);
        }
    }

    /// Records that no command gets a reply.
    pub(super) fn note_silence(&self) {
        if self.unavailable_reason().is_none() {
            self.mark_unavailable("it does not answer");
        }
    }

    /// Records that the server cannot be used.
    fn mark_unavailable(&self, reason: &str) {
        let mut state = self.state.lock();
        let was_unavailable = matches!(state.availability, Availability::Unavailable(_));
        state.availability = Availability::Unavailable(reason.to_owned());
        // Reasons may alternate, for instance those of a proxy that has no server behind it.
        if self.is_logged && (!was_unavailable || (state.is_new(reason) && state.may_log())) {
            error!(server = self.address, reason, "the store cannot be used");
            state.last_logged = Some((reason.to_owned(), Instant::now()));
        }
    }

    /// Records that the server has refused a command for a reason that its operator can remove.
    pub(super) fn note_refusal(&self, reason: &str) {
        let mut state = self.state.lock();
        if self.is_logged && state.may_log() {
            warn!(server = self.address, reason, "the store refuses commands");
            state.last_logged = Some((reason.to_owned(), Instant::now()));
        }
    }

    /// Returns why the server cannot be used, if that is known.
    pub(super) fn unavailable_reason(&self) -> Option<String> {
        match &self.state.lock().availability {
            Availability::Unavailable(reason) => Some(reason.clone()),
            Availability::Unknown | Availability::Available => None,
        }
    }

    /// Records whether the last write failed because the disk is full; `full_disk` is the error
    /// reply.
    pub(super) fn note_write(&self, full_disk: Option<&str>) {
        let mut state = self.state.lock();
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
        self.state.lock().full_disk.is_some()
    }
}

/// Describes a failure for an operator.
fn describe(failure: &FredError) -> String {
    let details = failure.details().trim_end_matches('.');
    // `fred` formats errors of the operating system as Rust structures.
    let quoted = |name| details.split_once(name)?.1.split('"').next();
    if let Some(reason) = tls_refusal(details) {
        return reason;
    }
    match failure.kind() {
        _ if is_redis_reply(failure) => details,
        ErrorKind::Timeout => "it does not answer while a connection is made",
        _ => quoted("message: \"").or_else(|| quoted("error: \"")).unwrap_or(details),
    }
    .to_owned()
}

/// Returns why the certificate of the server or of this process was not accepted, if an error with
/// these details says so.
fn tls_refusal(details: &str) -> Option<String> {
    if let Some(reason) = tls::rejection(details) {
        return Some(reason.to_owned());
    }
    let alert = details.split_once("AlertReceived(")?.1.split(')').next()?;
    Some(match alert {
        "CertificateRequired" => {
            "the server requires a client certificate; set certificate_file and key_file in [redis]".to_owned()
        }
        "HandshakeFailure" | "ProtocolVersion" | "InternalError" => format!(
            "the server refuses the TLS connection ({alert}); if it requires a client certificate, set \
             certificate_file and key_file in [redis]"
        ),
        _ => format!("the server refuses the TLS connection or does not accept the client certificate ({alert})"),
    })
}

/// Describes a failure of a server that has never replied: its address may be wrong.
fn describe_with_hint(failure: &FredError, uses_tls: bool) -> String {
    let (description, details) = (describe(failure), failure.details());
    match failure.kind() {
        _ if is_redis_reply(failure) => description,
        ErrorKind::Timeout if uses_tls => {
            "the TLS handshake timed out; if the server does not use TLS, use redis://".to_owned()
        }
        _ if tls_refusal(details).is_some() => description,
        ErrorKind::IO if uses_tls && !details.contains("refused") => {
            format!(
                "{description}; if the server does not use TLS, use redis://; if it requires a client certificate, set \
                 certificate_file and key_file in [redis]"
            )
        }
        ErrorKind::IO if details.contains("ConnectionReset") => {
            format!("{description}; if the server uses TLS, use rediss://")
        }
        ErrorKind::Protocol | ErrorKind::Parse => {
            format!("it does not answer as a Redis server does ({description}); check host and port")
        }
        _ => description,
    }
}
