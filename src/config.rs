//! What operators set: `config/default.toml`, then a file, then the environment, then flags.
//!
//! The default file is the only list of options. What is not in it is refused in a file and not
//! looked at in the environment, where others leave variables too.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use toml::{Table, Value};

use crate::domain::limits::{CLAIM_TERM_S_MIN, MESSAGE_TTL_S_MIN};
use crate::domain::{ClientIdRule, Limits, Secret};

const DEFAULTS: &str = include_str!("../config/default.toml");
const PREFIX: &str = "SUKKAL_";
const SECTION_END: &str = "__";

/// All options.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Config {
    /// Where the HTTP API listens.
    pub bind: SocketAddr,
    /// Where messages are kept, as a URI.
    pub store: String,
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
    /// What is logged, and how.
    pub log: Log,
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

/// Why the options make no sense; one line each.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// An option that there is not.
    #[error("there is no option {name:?} (in {from})")]
    Unknown {
        /// The option, with its section.
        name: String,
        /// Where it was set.
        from: String,
    },
    /// A value that the option does not take.
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
        let mut options: Table = DEFAULTS.parse().expect("the default file is in order");
        if let Some(path) = file {
            merge(&mut options, read(path)?, "", &path.display().to_string())?;
        }
        for (name, text) in environment {
            if let Some(option) = find(&mut options, &name) {
                *option = typed(&text, option).ok_or_else(|| invalid(&name, &text, option))?;
            }
        }
        for (name, value) in flags {
            if let Some(value) = value {
                options.insert((*name).to_owned(), Value::String(value.clone()));
            }
        }
        let config = Self::deserialize(options).map_err(|error| Error::Invalid(one_line(&error)))?;
        config.check()
    }

    /// The first option whose value is not between the least and the most that it takes.
    fn out_of_range(&self) -> Option<(&'static str, u64, (u64, u64))> {
        let limits = &self.transport.limits;
        let (message_ttl, claim_term) = (u64::from(MESSAGE_TTL_S_MIN), u64::from(CLAIM_TERM_S_MIN));
        let options = [
            ("max_message_ttl", limits.max_message_ttl.into(), (message_ttl, YEAR_S)),
            ("default_message_ttl", limits.default_message_ttl.into(), (message_ttl, YEAR_S)),
            ("max_message_delay", limits.max_message_delay.into(), (0, YEAR_S)),
            ("default_message_delay", limits.default_message_delay.into(), (0, YEAR_S)),
            ("max_claim_ttl", limits.max_claim_ttl.into(), (claim_term, YEAR_S)),
            ("default_claim_ttl", limits.default_claim_ttl.into(), (claim_term, YEAR_S)),
            ("max_claim_grace", limits.max_claim_grace.into(), (claim_term, YEAR_S)),
            ("default_claim_grace", limits.default_claim_grace.into(), (claim_term, YEAR_S)),
            ("max_queues_per_page", limits.max_queues_per_page.into(), (1, PAGE_MAX)),
            ("max_messages_per_page", limits.max_messages_per_page.into(), (1, PAGE_MAX)),
            ("max_messages_per_claim_or_pop", limits.max_messages_per_claim_or_pop.into(), (1, PAGE_MAX)),
            ("max_messages_per_post", limits.max_messages_per_post.into(), (1, POST_MESSAGES_MAX)),
            ("max_messages_post_size", limits.max_messages_post_size, (1, BODY_BYTES_MAX)),
            ("idempotency_key_ttl", limits.idempotency_key_ttl.into(), (1, YEAR_S)),
            ("max_waits_per_project", limits.max_waits_per_project.into(), (1, CONNECTIONS_MAX)),
            ("max_streams_per_project", limits.max_streams_per_project.into(), (1, CONNECTIONS_MAX)),
            ("max_queueing", limits.max_queueing.into(), (1, QUEUEING_S_MAX)),
            ("max_queue_metadata", limits.max_queue_metadata, (1, BODY_BYTES_MAX)),
            ("threads", self.threads as u64, (0, THREADS_MAX)),
            ("max_connections", self.max_connections as u64, (1, CONNECTIONS_MAX)),
            ("client_timeout", self.client_timeout_s, (1, YEAR_S)),
            ("janitor.pause", self.janitor.pause_s, (1, YEAR_S)),
            ("janitor.walk", self.janitor.walk_s, (1, YEAR_S)),
        ];
        options.into_iter().find(|(_, value, (least, most))| !(least..=most).contains(&value))
    }

    fn check(self) -> Result<Self, Error> {
        let (min, max) = (self.transport.min_length_client_id, self.transport.max_length_client_id);
        let complaint = if let Some((name, value, (least, most))) = self.out_of_range() {
            Some(format!("{name} is {value}, it must be {least} to {most}"))
        } else if min > max {
            Some(format!("min_length_client_id is {min}, max_length_client_id is {max}"))
        } else {
            None
        };
        complaint.map_or(Ok(self), |complaint| Err(Error::Invalid(complaint)))
    }
}

/// The longest page that may be configured: a page is read in one script.
const PAGE_MAX: u64 = 1000;
/// Largest value of `max_messages_per_post`: the messages of one request are stored by one script.
const POST_MESSAGES_MAX: u64 = 1000;
/// The largest body that may be configured, in bytes: all of it goes to the store in one script.
const BODY_BYTES_MAX: u64 = 4 << 20;
/// Largest value of `max_queueing`, in seconds: clients give up long before.
const QUEUEING_S_MAX: u64 = 60;
const CONNECTIONS_MAX: u64 = 1_000_000;
const THREADS_MAX: u64 = 1024;
const YEAR_S: u64 = 366 * 24 * 3600;

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

fn read(path: &Path) -> Result<Table, Error> {
    let unreadable = |reason| Error::Unreadable { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
    // The error's own words only: with them it would show the line, which may hold a password.
    text.parse().map_err(|error: toml::de::Error| unreadable(error.message().trim().replace('\n', " ")))
}

fn merge(options: &mut Table, overrides: Table, section: &str, from: &str) -> Result<(), Error> {
    for (key, value) in overrides {
        let name = if section.is_empty() { key.clone() } else { format!("{section}.{key}") };
        match (options.get_mut(&key), value) {
            (Some(Value::Table(options)), Value::Table(overrides)) => merge(options, overrides, &name, from)?,
            (Some(Value::Table(_)) | None, _) => return Err(Error::Unknown { name, from: from.to_owned() }),
            (Some(option), value) => *option = value,
        }
    }
    Ok(())
}

/// The option that an environment variable is named after.
fn find<'a>(options: &'a mut Table, variable: &str) -> Option<&'a mut Value> {
    let name = variable.strip_prefix(PREFIX)?.to_lowercase();
    match name.split_once(SECTION_END) {
        Some((section, name)) => options.get_mut(section)?.as_table_mut()?.get_mut(name),
        None => options.get_mut(&name).filter(|option| !option.is_table()),
    }
}

/// The text as a value of the kind that the option has.
fn typed(text: &str, option: &Value) -> Option<Value> {
    match option {
        Value::Integer(_) => text.parse().ok().map(Value::Integer),
        Value::Boolean(_) => text.parse().ok().map(Value::Boolean),
        _ => Some(Value::String(text.to_owned())),
    }
}

fn invalid(name: &str, text: &str, option: &Value) -> Error {
    Error::Invalid(format!("{name} is {text:?}, it must be of type {}", option.type_str()))
}

fn one_line(error: &toml::de::Error) -> String {
    error.to_string().trim().replace('\n', " ")
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
        assert_eq!(config.store, "redis://flag");
        assert_eq!(config.transport.limits.max_message_ttl, 62);
        assert_eq!(config.transport.limits.default_message_ttl, 3600);
    }

    #[test]
    fn an_option_that_there_is_not_is_refused_in_a_file() {
        for (file, name) in
            [("colour = 1", "colour"), ("[transport]\ncolour = 1", "transport.colour"), ("[bind]\na = 1", "bind")]
        {
            let error = load(file, &[], None).unwrap_err().to_string();

            assert!(error.contains(&format!("{name:?}")) || error.contains("bind"), "{error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_shown() {
        let error = load("store = \"redis://user:secret@host\" oops", &[], None).unwrap_err().to_string();

        assert!(!error.contains("secret"), "{error}");
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
    fn a_variable_of_somebody_else_is_not_ours() {
        let environment = [("SUKKAL_PORT", "tcp://10.0.0.1:80"), ("SUKKAL_TRANSPORT", "x"), ("HOME", "/")];

        assert!(load("", &environment, None).is_ok());
    }

    #[test]
    fn a_value_of_the_wrong_kind_is_refused_in_one_line() {
        let in_file = |file| load(file, &[], None).unwrap_err().to_string();
        let in_environment = load("", &[("SUKKAL_ADMIN_MODE", "maybe")], None).unwrap_err().to_string();

        for error in [
            in_environment,
            in_file("bind = \"nowhere\""),
            in_file("admin_mode = 3"),
            in_file("[transport]\nmax_messages_per_page = 0"),
            in_file("[transport]\ndefault_message_ttl = 0"),
            in_file("[transport]\nmax_messages_per_post = 1001"),
            in_file("[transport]\nmax_message_ttl = 4294967295"),
            in_file("[janitor]\npause = 0"),
            in_file("[janitor]\nwalk = 0"),
            in_file("threads = 1025"),
            in_file("threads = -1"),
            in_file("[embedded]\nfsync = \"perhaps\""),
            in_file("[transport]\nclient_id_uuid_safe = \"perhaps\""),
            in_file("not toml"),
        ] {
            assert!(!error.is_empty() && !error.contains('\n'), "{error}");
        }
    }
}
