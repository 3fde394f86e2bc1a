//! What operators set: `config/default.toml`, then a file, then the environment, then flags.
//!
//! The default file explains each option, and `rules.rs` has the values that each one accepts. An option that does not exist is
//! refused in a file. In the environment, where other programs set variables too, it is only worth a warning.

mod bind;
mod file;
mod names;
mod options;
mod rules;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer};
use thiserror::Error;

pub use self::bind::Bind;
use self::options::Options;
use crate::domain::{ClientIdRule, Limits, Secret};
use crate::storage::StoreUri;

const DEFAULTS: &str = include_str!("../../config/default.toml");

/// All options.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    /// Where the HTTP API listens.
    pub bind: Bind,
    /// Where messages are kept.
    #[serde(deserialize_with = "store")]
    pub store: StoreUri,
    /// Whether the operators' routes are there.
    pub admin_mode: bool,
    /// Whether documents of messages carry checksums of their bodies.
    pub enable_checksum: bool,
    /// How many threads work on requests; 0 for as many as suit this machine.
    pub threads: usize,
    /// How long requests under way may take to finish, in seconds.
    #[serde(rename = "drain_timeout")]
    pub drain_timeout_s: u64,
    /// How long a client may pause while it sends a request, in seconds.
    #[serde(rename = "client_timeout")]
    pub client_timeout_s: u64,
    /// Maximum number of open connections of clients.
    pub max_connections: usize,
    /// Limits and defaults of the API.
    pub transport: Transport,
    /// Pre-signed URLs.
    pub signed_url: SignedUrl,
    /// The store in this process.
    pub embedded: Embedded,
    /// The background work.
    pub janitor: Janitor,
    /// Monitoring.
    pub operations: Operations,
    /// What is logged, and how.
    pub log: Log,
    /// Mistakes that keep nothing from working, one line each.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// `[transport]`, as in Zaqar.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Transport {
    /// Limits and defaults.
    #[serde(flatten)]
    pub limits: Limits,
    /// How often a stream on which nothing happens shows that it is alive, in seconds.
    #[serde(rename = "stream_heartbeat")]
    pub stream_heartbeat_s: u64,
    client_id_uuid_safe: ClientIdCheck,
    min_length_client_id: usize,
    max_length_client_id: usize,
    /// The passphrase that messages are encrypted with.
    pub message_encryption_key: Secret,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ClientIdCheck {
    Strict,
    Off,
}

/// `[signed_url]`, as in Zaqar.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct SignedUrl {
    /// What URLs are signed with.
    pub secret_key: Secret,
}

/// `[embedded]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Embedded {
    /// When what was acknowledged is on disk.
    pub fsync: Fsync,
}

/// When what was acknowledged is on disk.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Before it is acknowledged.
    Group,
    /// Within a second.
    Interval,
    /// Within a minute, or when the process stops.
    Off,
}

/// `[janitor]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Janitor {
    /// Pause between two rounds over the queues in which something is due, in seconds.
    #[serde(rename = "pause")]
    pub pause_s: u64,
    /// Pause between two walks over all queues in Redis, in seconds.
    #[serde(rename = "walk")]
    pub walk_s: u64,
}

/// `[operations]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Operations {
    /// Where the health checks and metrics have a listener of their own, if anywhere.
    #[serde(deserialize_with = "optional_bind")]
    pub bind: Option<Bind>,
}

/// `[log]`
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Log {
    /// What is logged, in the directives of `tracing`.
    pub filter: String,
    /// How it is written.
    pub format: LogFormat,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// Why the options cannot be used; one line each.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("--config: cannot read {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An option does not exist, or does not accept its value, or the file is malformed.
    #[error("{0}")]
    Invalid(String),
}

impl Config {
    /// Reads all options. `environment` is the process's; `flags` are options of no section.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, Option<String>)],
    ) -> Result<Self, Error> {
        let mut options = Options::defaults();
        if let Some(path) = file {
            options.set_by_file(file::read(path, Options::is_section)?)?;
        }
        let mut warnings = options.set_by_environment(environment);
        for (name, text) in flags {
            if let Some(text) = text {
                options.set_by_flag(name, text);
            }
        }
        options.check()?;
        warnings.extend(options.short_secrets());
        let config = Self::deserialize(options.into_table());
        let config = config.map_err(|error| Error::Invalid(error.message().replace('\n', " ")))?;
        Ok(Self { warnings, ..config })
    }
}

fn optional_bind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bind>, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(serde::de::Error::custom) }
}

fn store<'de, D: Deserializer<'de>>(deserializer: D) -> Result<StoreUri, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

impl Transport {
    /// Which texts are client ids.
    #[must_use]
    pub fn client_id(&self) -> ClientIdRule {
        match self.client_id_uuid_safe {
            ClientIdCheck::Strict => ClientIdRule::Uuid,
            ClientIdCheck::Off => ClientIdRule::Text(self.min_length_client_id..=self.max_length_client_id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, environment: &[(&str, &str)], store: Option<&str>) -> Result<Config, Error> {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(Some(path.path()), environment, &[("store", store.map(str::to_owned))])
    }

    #[test]
    fn flags_go_before_environment_before_file_before_defaults() {
        let file = "bind = \"127.0.0.1:1\"\nstore = \"redis://file\"\n[transport]\nmax_message_ttl = 61";
        let environment = [("SUKKAL_STORE", "redis://environment"), ("SUKKAL_TRANSPORT__MAX_MESSAGE_TTL", "62")];

        let config = load(file, &environment, Some("redis://flag")).unwrap();

        assert_eq!(config.bind, "127.0.0.1:1".parse().unwrap());
        assert_eq!(config.store.to_string(), "redis://flag");
        assert_eq!(config.transport.limits.max_message_ttl, 62);
        assert_eq!(config.transport.limits.default_claim_ttl, 300);
    }

    #[test]
    fn a_secret_is_taken_but_not_shown() {
        let config = load("", &[("SUKKAL_SIGNED_URL__SECRET_KEY", "hush")], None).unwrap();
        let mistyped = load("[signed_url]\nsecret_key = 4242", &[], None).unwrap_err().to_string();

        assert_eq!(config.signed_url.secret_key.reveal(), Some("hush"));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert!(mistyped.contains("secret_key") && !mistyped.contains("4242"), "{mistyped}");
        assert_eq!(load("", &[], None).unwrap().signed_url.secret_key.reveal(), None);
    }

    #[test]
    fn the_key_of_messages_is_a_secret_and_has_no_default() {
        let config = load("", &[("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "hush")], None).unwrap();
        let mistyped = load("[transport]\nmessage_encryption_key = 4242", &[], None).unwrap_err().to_string();

        assert_eq!(config.transport.message_encryption_key.reveal(), Some("hush"));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert!(!mistyped.contains("4242"), "{mistyped}");
        assert_eq!(load("", &[], None).unwrap().transport.message_encryption_key.reveal(), None);
    }

    #[test]
    fn a_password_in_the_address_of_the_store_is_not_shown() {
        let config = load("", &[], Some("redis://user:hunter2@host")).unwrap();
        let misplaced = load("store = \"redis://user:hunter2@host\" oops", &[], None).unwrap_err().to_string();
        let malformed = load("store = redis://user:hunter2@host", &[], None).unwrap_err().to_string();

        for text in [format!("{config:?}"), misplaced, malformed] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_default_is_not_more_than_the_maximum_that_was_set() {
        let config = load("[transport]\nmax_message_ttl = 100\nmax_claim_grace = 60", &[], None).unwrap();

        assert_eq!(config.transport.limits.default_message_ttl, 100);
        assert_eq!(config.transport.limits.default_claim_grace, 60);
    }

    #[test]
    fn a_variable_that_names_no_option_is_worth_a_warning() {
        let environment = [
            ("SUKKAL_STROE", "hush"),
            ("SUKKAL_TRANSPORT", "hush"),
            ("SUKKAL_PORT", "tcp://10.0.0.1:80"),
            ("HOME", "/"),
        ];

        let warnings = load("", &environment, None).unwrap().warnings;

        assert_eq!(
            warnings,
            [
                "the environment variable SUKKAL_STROE names no option and is ignored; did you mean SUKKAL_STORE?",
                "the environment variable SUKKAL_TRANSPORT names no option and is ignored",
            ]
        );
    }

    #[test]
    fn a_short_secret_is_worth_a_warning() {
        let long = "x".repeat(32);
        let environment =
            [("SUKKAL_SIGNED_URL__SECRET_KEY", "hush"), ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", &long)];

        let warnings = load("", &environment, None).unwrap().warnings;

        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("SUKKAL_SIGNED_URL__SECRET_KEY is short (4 bytes, in the environment)"));
        assert!(!warnings[0].contains("hush"));
    }
}
