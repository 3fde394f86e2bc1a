//! What each option accepts. The default file says what each option is for.

use toml::Value;
use tracing_subscriber::EnvFilter;

use super::bind::Bind;
use crate::domain::limits::{CLAIM_TERM_S_MIN, MESSAGE_TTL_S_MIN};
use crate::storage::StoreUri;

/// What an option accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Accepts {
    /// An integer from the first to the second, and what it counts.
    Integer(u64, u64, &'static str),
    /// True or false.
    Switch,
    /// One of these words.
    Word(&'static [&'static str]),
    /// An address to listen on.
    Address,
    /// An address to listen on, or nothing.
    OptionalAddress,
    /// The URI of a store, which may hold a password.
    Store,
    /// Directives of `tracing`.
    Filter,
    /// A secret, which is never shown.
    Secret,
}

const YEAR_S: u64 = 366 * 24 * 3600;
const HOUR_S: u64 = 3600;
/// The longest page: a page is read in one script.
const PAGE_MAX: u64 = 1000;
/// The messages of one request are stored by one script.
const POST_MESSAGES_MAX: u64 = 1000;
/// The largest body, in bytes: all of it goes to the store in one script.
const BODY_BYTES_MAX: u64 = 4 << 20;
const THREADS_MAX: u64 = 1024;
const CONNECTIONS_MAX: u64 = 1_000_000;
/// Clients give up long before.
const QUEUEING_S_MAX: u64 = 60;
const CLIENT_ID_CHARS_MAX: u64 = 10_000;

const MESSAGE_TTL: Accepts = Accepts::Integer(MESSAGE_TTL_S_MIN as u64, YEAR_S, "seconds");
const CLAIM_TERM: Accepts = Accepts::Integer(CLAIM_TERM_S_MIN as u64, YEAR_S, "seconds");
const DELAY: Accepts = Accepts::Integer(0, YEAR_S, "seconds");
const DURATION: Accepts = Accepts::Integer(1, YEAR_S, "seconds");
const PAGE: Accepts = Accepts::Integer(1, PAGE_MAX, "");
const BYTES: Accepts = Accepts::Integer(1, BODY_BYTES_MAX, "bytes");
const CONNECTIONS: Accepts = Accepts::Integer(1, CONNECTIONS_MAX, "");
const CHARACTERS: Accepts = Accepts::Integer(0, CLIENT_ID_CHARS_MAX, "characters");

/// Every option.
pub(super) const RULES: &[(&str, Accepts)] = &[
    ("bind", Accepts::Address),
    ("store", Accepts::Store),
    ("admin_mode", Accepts::Switch),
    ("enable_checksum", Accepts::Switch),
    ("threads", Accepts::Integer(0, THREADS_MAX, "")),
    ("drain_timeout", Accepts::Integer(0, YEAR_S, "seconds")),
    ("client_timeout", DURATION),
    ("max_connections", CONNECTIONS),
    ("transport.default_message_ttl", MESSAGE_TTL),
    ("transport.max_message_ttl", MESSAGE_TTL),
    ("transport.default_message_delay", DELAY),
    ("transport.max_message_delay", DELAY),
    ("transport.default_claim_ttl", CLAIM_TERM),
    ("transport.default_claim_grace", CLAIM_TERM),
    ("transport.max_claim_ttl", CLAIM_TERM),
    ("transport.max_claim_grace", CLAIM_TERM),
    ("transport.message_delete_with_claim_id", Accepts::Switch),
    ("transport.max_queues_per_page", PAGE),
    ("transport.max_messages_per_page", PAGE),
    ("transport.max_messages_per_claim_or_pop", PAGE),
    ("transport.max_wait", Accepts::Integer(0, HOUR_S, "seconds")),
    ("transport.max_waits_per_project", CONNECTIONS),
    ("transport.max_streams_per_project", CONNECTIONS),
    ("transport.max_queueing", Accepts::Integer(1, QUEUEING_S_MAX, "seconds")),
    ("transport.stream_heartbeat", Accepts::Integer(1, HOUR_S, "seconds")),
    ("transport.max_queue_metadata", BYTES),
    ("transport.max_messages_post_size", BYTES),
    ("transport.max_messages_per_post", Accepts::Integer(1, POST_MESSAGES_MAX, "")),
    ("transport.idempotency_key_ttl", DURATION),
    ("transport.message_encryption_key", Accepts::Secret),
    ("transport.client_id_uuid_safe", Accepts::Word(&["strict", "off"])),
    ("transport.min_length_client_id", CHARACTERS),
    ("transport.max_length_client_id", CHARACTERS),
    ("signed_url.secret_key", Accepts::Secret),
    ("embedded.fsync", Accepts::Word(&["group", "interval", "off"])),
    ("janitor.pause", DURATION),
    ("janitor.walk", DURATION),
    ("operations.bind", Accepts::OptionalAddress),
    ("log.filter", Accepts::Filter),
    ("log.format", Accepts::Word(&["auto", "text", "json"])),
];

/// Pairs of options of which the first must not be more than the second.
pub(super) const PAIRS: [(&str, &str); 5] = [
    ("transport.default_message_ttl", "transport.max_message_ttl"),
    ("transport.default_message_delay", "transport.max_message_delay"),
    ("transport.default_claim_ttl", "transport.max_claim_ttl"),
    ("transport.default_claim_grace", "transport.max_claim_grace"),
    ("transport.min_length_client_id", "transport.max_length_client_id"),
];

/// The shortest secret that no warning is about, in bytes: the output of SHA-256, with which both secrets are used.
pub(super) const SECRET_BYTES_MIN: usize = 32;

impl Accepts {
    /// The text as a value of the type that the option has; as text if it is not one.
    pub(super) fn value_of(self, text: &str) -> Value {
        let typed = match self {
            Self::Integer(..) => text.parse().ok().map(Value::Integer),
            Self::Switch => text.parse().ok().map(Value::Boolean),
            Self::Word(_) | Self::Address | Self::OptionalAddress | Self::Store | Self::Filter | Self::Secret => None,
        };
        typed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// The error says what is accepted instead.
    pub(super) fn check(self, value: &Value) -> Result<(), String> {
        let is_accepted = match (self, value) {
            (Self::Integer(min, max, _), Value::Integer(number)) => {
                u64::try_from(*number).is_ok_and(|number| (min..=max).contains(&number))
            }
            (Self::Switch, Value::Boolean(_)) | (Self::Secret, Value::String(_)) => true,
            (Self::Word(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::Address, Value::String(text)) => text.parse::<Bind>().is_ok(),
            (Self::OptionalAddress, Value::String(text)) => text.is_empty() || text.parse::<Bind>().is_ok(),
            (Self::Filter, Value::String(text)) => EnvFilter::try_new(text).is_ok(),
            (Self::Store, Value::String(text)) => {
                return text.parse::<StoreUri>().map(drop).map_err(|error| error.to_string());
            }
            _ => false,
        };
        if is_accepted { Ok(()) } else { Err(format!("it must be {}", self.expected())) }
    }

    fn expected(self) -> String {
        match self {
            Self::Integer(min, max, "") => format!("an integer from {min} to {max}"),
            Self::Integer(min, max, unit) => format!("an integer from {min} to {max}, in {unit}"),
            Self::Switch => "true or false".to_owned(),
            Self::Word(words) => words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or "),
            Self::Address => "HOST:PORT, :PORT or PORT, with a port from 0 to 65535".to_owned(),
            Self::OptionalAddress => "HOST:PORT, :PORT or PORT, with a port from 0 to 65535, or empty".to_owned(),
            Self::Store => "the URI of a store".to_owned(),
            Self::Filter => "error, warn, info, debug or trace, or such levels by module".to_owned(),
            Self::Secret => "text in quotes".to_owned(),
        }
    }

    /// Whether a value may be shown.
    pub(super) fn is_public(self) -> bool {
        !matches!(self, Self::Store | Self::Secret)
    }
}
