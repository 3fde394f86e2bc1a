//! The configuration: `config/default.toml`, overridden by a file, the environment, and flags, in
//! this order.
//!
//! The default file explains each option, and `rules.rs` defines the values that each option
//! accepts. An unknown option in a file is an error. In the environment, where other programs set
//! variables too, it is only a warning.

mod auth;
mod bind;
mod console;
mod cors;
mod error;
mod file;
mod mail;
mod names;
mod options;
mod policy;
mod quotas;
mod rules;
mod tls;
mod unencrypted;
mod values;
mod warnings;
mod websocket;

use std::path::{Path, PathBuf};

use serde::Deserialize;

pub use self::auth::Auth;
pub use self::bind::Bind;
pub use self::console::Console;
pub use self::error::Error;
pub use self::options::EXPLAINED_DEFAULTS;
use self::options::Options;
pub use self::quotas::Quotas;
pub use self::tls::{ClientCertificate, Tls};
pub use self::websocket::WebSocket;
use crate::auth::policy::Policy;
use crate::domain::{
    AuthStrategy, ClientIdRule, JwtConfig, KeystoneConfig, Limits, MailConfig, ProjectId, PushConfig, QueueId, Secret,
    WebOrigins,
};
use crate::storage::StoreUri;

/// All options.
#[derive(Clone, Debug, Deserialize)]
pub struct Config {
    /// Address of the HTTP API.
    pub bind: Bind,
    /// The store that keeps the messages.
    #[serde(deserialize_with = "values::store")]
    pub store: StoreUri,
    /// Whether the routes for operators are enabled.
    pub admin_mode: bool,
    /// Whether message documents contain checksums of their bodies.
    pub enable_checksum: bool,
    /// Number of threads that process requests; 0 selects a number that suits the machine.
    pub threads: usize,
    /// Maximum time that requests in progress get to finish when the service stops, in seconds.
    #[serde(rename = "drain_timeout")]
    pub drain_timeout_s: u64,
    /// Maximum pause of a client while it sends a request, in seconds.
    #[serde(rename = "client_timeout")]
    pub client_timeout_s: u64,
    /// Maximum number of open client connections.
    pub max_connections: usize,
    /// TLS on the listeners.
    pub tls: Tls,
    /// Limits and defaults of the API.
    pub transport: Transport,
    /// Authentication of callers.
    pub auth: Auth,
    /// Quotas of projects.
    pub quotas: Quotas,
    /// Pre-signed URLs.
    pub signed_url: SignedUrl,
    /// What clients may do.
    #[serde(deserialize_with = "policy::policy")]
    pub policy: Policy,
    /// Tokens that the service issues.
    pub tokens: Tokens,
    /// Deliveries to subscribers.
    pub push: PushConfig,
    /// Mail to subscribers.
    pub mail: MailConfig,
    /// JSON Web Tokens.
    pub jwt: JwtConfig,
    /// Tokens of Keystone.
    pub keystone: KeystoneConfig,
    /// Pools of stores.
    pub pooling: Pooling,
    /// TLS to Redis.
    pub redis: Redis,
    /// The embedded store.
    pub embedded: Embedded,
    /// Background maintenance.
    pub janitor: Janitor,
    /// Monitoring.
    pub operations: Operations,
    /// WebSockets.
    pub websocket: WebSocket,
    /// The console.
    pub console: Console,
    /// Metrics.
    pub metrics: Metrics,
    /// Traces.
    pub telemetry: Telemetry,
    /// The audit log.
    pub audit: Audit,
    /// The log.
    pub log: Log,
    /// Whether tests can move the clock of each queue in Redis, from a variable that is not an option.
    #[serde(skip)]
    pub has_movable_clock: bool,
    /// Mistakes that do not prevent the service from running, one line each.
    #[serde(skip)]
    pub warnings: Vec<String>,
}

/// `[transport]`, as in Zaqar.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Transport {
    /// Limits and defaults.
    #[serde(flatten)]
    pub limits: Limits,
    /// Interval between the heartbeats of an idle stream, in seconds.
    #[serde(rename = "stream_heartbeat")]
    pub stream_heartbeat_s: u64,
    client_id: ClientIdNeed,
    client_id_uuid_safe: ClientIdCheck,
    min_length_client_id: usize,
    max_length_client_id: usize,
    /// The project of requests that name none; `None` if each request must name one.
    #[serde(deserialize_with = "values::optional_project")]
    pub default_project: Option<ProjectId>,
    /// The origins of web pages that may use the API; `None` for only that of the API itself.
    #[serde(deserialize_with = "values::web_origins")]
    pub cors_origins: Option<WebOrigins>,
    /// The passphrase for the encryption of messages.
    pub message_encryption_key: Secret,
    /// Further passphrases, which only decrypt messages.
    pub message_decryption_keys: Vec<Secret>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ClientIdCheck {
    Strict,
    Off,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum ClientIdNeed {
    Required,
    Optional,
}

/// `[signed_url]`, as in Zaqar.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct SignedUrl {
    /// The key that signs URLs.
    pub secret_key: Secret,
    /// A key whose signatures are accepted too.
    pub accepted_secret_key: Secret,
}

/// `[tokens]`: tokens that the service issues.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Tokens {
    /// The token of an admin, which is valid without being stored.
    pub admin_token: Secret,
    /// A file with that token; `None` if there is none.
    #[serde(deserialize_with = "values::optional_text")]
    pub admin_token_file: Option<String>,
}

/// `[pooling]`: pools of stores.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Pooling {
    /// Whether queues are in pools.
    pub enabled: bool,
    /// Whether the management store is a pool too.
    pub virtual_pool: bool,
}

/// `[redis]`: TLS to Redis.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Redis {
    /// The certificates of the trusted authorities; `None` for those of the operating system.
    #[serde(deserialize_with = "values::optional_file")]
    pub ca_file: Option<PathBuf>,
    /// The certificate that identifies this process.
    #[serde(deserialize_with = "values::optional_file")]
    pub certificate_file: Option<PathBuf>,
    /// The private key of the certificate.
    #[serde(deserialize_with = "values::optional_file")]
    pub key_file: Option<PathBuf>,
}

/// `[embedded]`: the embedded store.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Embedded {
    /// When acknowledged writes are on disk.
    pub fsync: Fsync,
}

/// When acknowledged writes are on disk.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Fsync {
    /// Before they are acknowledged.
    Group,
    /// Within a second.
    Interval,
    /// Within a minute, or when the process stops.
    Off,
}

/// `[janitor]`: background maintenance.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Janitor {
    /// Pause between two rounds over the queues that have due changes, in seconds.
    #[serde(rename = "pause")]
    pub pause_s: u64,
    /// Pause between two passes over all queues in Redis, in seconds.
    #[serde(rename = "walk")]
    pub walk_s: u64,
}

/// `[operations]`: monitoring.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Operations {
    /// Address of the separate listener for health checks and metrics; `None` for no separate
    /// listener.
    #[serde(deserialize_with = "values::optional_bind")]
    pub bind: Option<Bind>,
}

/// `[metrics]`: what the metrics include.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Metrics {
    /// The queues that have metrics of their own.
    #[serde(deserialize_with = "values::queues")]
    pub queues: Vec<QueueId>,
}

/// `[telemetry]`: traces.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Telemetry {
    /// The URL of the collector that receives traces; `None` for no traces.
    #[serde(deserialize_with = "values::optional_text")]
    pub otlp_endpoint: Option<String>,
}

/// `[audit]`: the audit log.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Audit {
    /// The file, or `stderr`; `None` for no audit log.
    #[serde(deserialize_with = "values::optional_text")]
    pub file: Option<String>,
}

/// `[log]`: the log.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Log {
    /// The events that are logged, as directives of `tracing`.
    pub filter: String,
    /// The format of the log.
    pub format: LogFormat,
}

/// The format of the log.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Lines of text.
    Text,
    /// One JSON object for each line.
    Json,
}

impl Config {
    /// Loads all options from a file, environment variables, and flags, which set options outside
    /// of sections.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, Option<String>)],
    ) -> Result<Self, Error> {
        let mut options = Options::defaults();
        if let Some(path) = file {
            options.set_from_file(file::read(path, Options::is_section)?)?;
        }
        let mut environment: Vec<_> = environment.into_iter().collect();
        let has_movable_clock =
            environment.extract_if(.., |(variable, _)| variable == names::MOVABLE_CLOCK).count() > 0;
        let mut warnings = options.set_from_environment(environment);
        for (name, text) in flags {
            if let Some(text) = text {
                options.set_from_flag(name, text);
            }
        }
        options.validate()?;
        warnings.extend(options.secret_warnings());
        let config = Self::deserialize(options.into_table());
        let config = config.map_err(|error| Error::Invalid(error.message().replace('\n', " ")))?;
        config.tls.check().map_err(Error::Invalid)?;
        mail::check(&config.mail, &config.signed_url).map_err(Error::Invalid)?;
        warnings.extend(config.useless_options());
        warnings.extend(config.tokens.check(&config.auth.strategies)?);
        warnings.extend(config.auth.check(&config.tls)?);
        warnings.extend(unencrypted::warnings(&config));
        Ok(Self { has_movable_clock, warnings, ..config })
    }
}

impl Tokens {
    /// Refuses two tokens of the admin. Returns a warning if one has no effect.
    fn check(&self, strategies: &[AuthStrategy]) -> Result<Option<String>, Error> {
        let are_credentials = strategies.contains(&AuthStrategy::Tokens);
        match (self.admin_token.reveal(), &self.admin_token_file) {
            (Some(_), Some(_)) => {
                let reason = "tokens.admin_token and tokens.admin_token_file are both set; set one of them";
                Err(Error::Invalid(reason.to_owned()))
            }
            (None, None) => Ok(None),
            _ if are_credentials => Ok(None),
            _ => Ok(Some("the token in [tokens] has no effect without \"tokens\" in auth.strategies".to_owned())),
        }
    }
}

impl Transport {
    /// The rule for valid client ids.
    #[must_use]
    pub fn client_id(&self) -> ClientIdRule {
        match self.client_id_uuid_safe {
            ClientIdCheck::Strict => ClientIdRule::Uuid,
            ClientIdCheck::Off => ClientIdRule::Text(self.min_length_client_id..=self.max_length_client_id),
        }
    }

    /// Whether a request may have no client id.
    #[must_use]
    pub fn client_id_is_optional(&self) -> bool {
        self.client_id == ClientIdNeed::Optional
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{JwtAlgorithm, Token};

    fn load(file: &str, environment: &[(&str, &str)], store: Option<&str>) -> Result<Config, Error> {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(Some(path.path()), environment, &[("store", store.map(str::to_owned))])
    }

    #[test]
    fn flags_override_the_environment_the_file_and_the_defaults_in_this_order() {
        let file = "bind = \"127.0.0.1:1\"\nstore = \"redis://file\"\n[transport]\nmax_message_ttl = 61";
        let environment = [("SUKKAL_STORE", "redis://environment"), ("SUKKAL_TRANSPORT__MAX_MESSAGE_TTL", "62")];

        let config = load(file, &environment, Some("redis://flag")).unwrap();

        assert_eq!(config.bind, "127.0.0.1:1".parse().unwrap());
        assert_eq!(config.store.to_string(), "redis://flag");
        assert_eq!(config.transport.limits.max_message_ttl, 62);
        assert_eq!(config.transport.limits.default_claim_ttl, 300);
    }

    #[test]
    fn a_secret_is_accepted_but_not_shown() {
        let config = load("", &[("SUKKAL_SIGNED_URL__SECRET_KEY", "hush")], None).unwrap();
        let mistyped = load("[signed_url]\nsecret_key = 4242", &[], None).unwrap_err().to_string();

        assert_eq!(config.signed_url.secret_key.reveal(), Some("hush"));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert!(mistyped.contains("secret_key") && !mistyped.contains("4242"), "{mistyped}");
        assert_eq!(load("", &[], None).unwrap().signed_url.secret_key.reveal(), None);
    }

    #[test]
    fn the_encryption_key_is_a_secret_and_has_no_default() {
        let config = load("", &[("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "hush")], None).unwrap();
        let mistyped = load("[transport]\nmessage_encryption_key = 4242", &[], None).unwrap_err().to_string();

        assert_eq!(config.transport.message_encryption_key.reveal(), Some("hush"));
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert!(!mistyped.contains("4242"), "{mistyped}");
        assert_eq!(load("", &[], None).unwrap().transport.message_encryption_key.reveal(), None);
    }

    #[test]
    fn the_password_of_the_service_user_is_accepted_without_a_warning_but_not_shown() {
        let environment = [("SUKKAL_KEYSTONE__PASSWORD", "hush"), ("SUKKAL_JWT__AUDIENCE", "queues, messages")];
        let config = load("", &environment, None).unwrap();

        assert_eq!(config.keystone.password.reveal(), Some("hush"));
        assert_eq!(config.warnings, [""; 0]);
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert_eq!(config.jwt.audience, ["queues", "messages"]);
        assert_eq!(config.jwt.algorithms, [JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa]);
    }

    #[test]
    fn the_admin_token_has_the_form_of_a_token_and_is_not_shown() {
        let token = Token::random().reveal();
        let load_token = |token: &str| {
            let strategy = ("SUKKAL_AUTH__STRATEGIES", "tokens");
            let environment = [("SUKKAL_TOKENS__ADMIN_TOKEN", token), strategy, ("SUKKAL_POLICY__PRESET", "roles")];
            load("", &environment, None)
        };

        let config = load_token(&token).unwrap();
        assert_eq!(config.tokens.admin_token.reveal(), Some(token.as_str()));
        assert!(!format!("{config:?}").contains(token.as_str()) && config.warnings.is_empty());
        let error = load_token(&token[..80]).unwrap_err().to_string();
        assert!(
            error.contains("SUKKAL_TOKENS__ADMIN_TOKEN is not accepted") && !error.contains(&token[..80]),
            "{error}"
        );
        let both = format!("[tokens]\nadmin_token = \"{}\"\nadmin_token_file = \"token\"", *token);
        let error = load(&both, &[], None).unwrap_err().to_string();
        assert!(load("[tokens]\nadmin_token_file = \"t\"", &[], None).unwrap().warnings[0].contains("no effect"));
        assert!(error.starts_with("tokens.admin_token and tokens.admin_token_file are both set"), "{error}");
    }

    #[test]
    fn further_encryption_keys_are_a_list_of_secrets() {
        let long = "x".repeat(32);
        let file = format!("[transport]\nmessage_encryption_key = \"{long}\"\nmessage_decryption_keys = [\"hush\"]");
        let environment = [("SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS", "one, two")];
        let keys = |config: &Config| {
            let keys = config.transport.message_decryption_keys.iter();
            keys.filter_map(Secret::reveal).map(str::to_owned).collect::<Vec<_>>()
        };

        let config = load(&file, &[], None).unwrap();
        assert_eq!(keys(&config), ["hush"]);
        assert_eq!(keys(&load(&file, &environment, None).unwrap()), ["one", " two"], "white space is kept");
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
        assert!(config.warnings[0].starts_with("transport.message_decryption_keys is short (4 bytes"), "{config:?}");
        for mistyped in ["[4242]", "\"hush\"", "[\"\"]"] {
            let error = load(&format!("[transport]\nmessage_decryption_keys = {mistyped}"), &[], None).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("a list of texts") && !error.contains("4242") && !error.contains("hush"), "{error}");
        }
    }

    #[test]
    fn a_password_in_the_store_uri_is_not_shown() {
        let config = load("", &[], Some("redis://user:hunter2@host")).unwrap();
        let misplaced = load("store = \"redis://user:hunter2@host\" oops", &[], None).unwrap_err().to_string();
        let malformed = load("store = redis://user:hunter2@host", &[], None).unwrap_err().to_string();

        for text in [format!("{config:?}"), misplaced, malformed] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn the_queues_of_the_metrics_are_a_list_in_a_file_and_in_the_environment() {
        let file = "[metrics]\nqueues = [\"my/team/orders\", \"p/q\", \"p/q\"]";
        let shown = |config: Config| config.metrics.queues.iter().map(QueueId::to_string).collect::<Vec<_>>();

        assert_eq!(shown(load(file, &[], None).unwrap()), ["my/team/orders", "p/q"]);
        let environment = [("SUKKAL_METRICS__QUEUES", "p/q, a b/c")];
        assert_eq!(shown(load(file, &environment, None).unwrap()), ["a b/c", "p/q"]);
        assert_eq!(shown(load(file, &[("SUKKAL_METRICS__QUEUES", "")], None).unwrap()), [""; 0]);
        let many: Vec<String> = (0..501).map(|number| format!("\"p/q{number}\"")).collect();
        for queues in [&many.join(","), "\"orders\"", "\"p/\"", "\"p/a b\"", "\"/q\"", "3"] {
            let error = load(&format!("[metrics]\nqueues = [{queues}]"), &[], None).unwrap_err().to_string();
            assert!(error.contains("it must be a list of at most 500 queues"), "{error}");
        }
    }

    #[test]
    fn the_rules_for_addresses_are_lists_in_a_file_and_in_the_environment() {
        let file =
            "[push]\nallowed_networks = [\"10.0.0.0/8\"]\nallowed_ports = [\"443\"]\nallowed_schemes = [\"https\"]";
        let environment = [
            ("SUKKAL_PUSH__ALLOWED_NETWORKS", "127.0.0.0/8, ::1"),
            ("SUKKAL_PUSH__ALLOWED_PORTS", "80, 8000-9000"),
            ("SUKKAL_PUSH__ALLOWED_SCHEMES", "http"),
        ];
        let permits = |config: &Config, address: &str| config.push.addresses.permits(address.parse().unwrap()).is_ok();

        let default = load("", &[], None).unwrap();
        assert!(!permits(&default, "10.1.2.3") && !permits(&default, "127.0.0.1"));
        let from_file = load(file, &[], None).unwrap();
        assert!(permits(&from_file, "10.1.2.3") && !from_file.push.addresses.scheme_is_allowed("http"));
        let config = load(file, &environment, None).unwrap();
        assert!(permits(&config, "127.0.0.1") && permits(&config, "::1") && !permits(&config, "10.1.2.3"));
        assert!(config.push.addresses.port_is_allowed(8500) && !config.push.addresses.port_is_allowed(443));
        for (option, value, expected) in [
            ("ALLOWED_NETWORKS", "10.0.0.1/8", "it must be a list of IP networks"),
            ("ALLOWED_PORTS", "0", "it must be a list of ports"),
            ("ALLOWED_SCHEMES", "mailto", "it must be a list of \"http\" and \"https\""),
        ] {
            let error = load("", &[(&format!("SUKKAL_PUSH__{option}"), value)], None).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_default_is_lowered_to_a_configured_maximum() {
        let config = load("[transport]\nmax_message_ttl = 100\nmax_claim_grace = 60", &[], None).unwrap();

        assert_eq!(config.transport.limits.default_message_ttl, 100);
        assert_eq!(config.transport.limits.default_claim_grace, 60);
    }

    #[test]
    fn an_unknown_variable_causes_a_warning() {
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
                "the environment variable SUKKAL_STROE does not name an option and is ignored; did you mean SUKKAL_STORE?",
                "the environment variable SUKKAL_TRANSPORT does not name an option and is ignored",
            ]
        );
    }

    #[test]
    fn a_short_secret_causes_a_warning() {
        let long = "x".repeat(32);
        let environment =
            [("SUKKAL_SIGNED_URL__SECRET_KEY", "hush"), ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", &long)];

        let warnings = load("", &environment, None).unwrap().warnings;

        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with("SUKKAL_SIGNED_URL__SECRET_KEY is short (4 bytes, in the environment)"));
        assert!(!warnings[0].contains("hush"));
    }

    #[test]
    fn a_secret_that_is_hard_to_repeat_causes_a_warning() {
        let (space, comma) = (format!("{}\n", "x".repeat(32)), format!("{},x", "x".repeat(32)));
        let (key, others) = ("SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY", "SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS");
        for (variable, secret, expected) in [
            (key, &space, "begins or ends with white space (in the environment)"),
            ("SUKKAL_SIGNED_URL__SECRET_KEY", &space, "begins or ends with white space (in the environment)"),
            (key, &comma, "has a comma (in the environment): to change it later, list it"),
        ] {
            let warnings = load("", &[(variable, secret)], None).unwrap().warnings;
            assert!(warnings.len() == 1 && warnings[0].starts_with(&format!("{variable} {expected}")), "{warnings:?}");
            assert!(!warnings[0].contains("xx"), "{warnings:?}");
        }
        assert_eq!(load("", &[("SUKKAL_SIGNED_URL__SECRET_KEY", &comma)], None).unwrap().warnings, [""; 0]);
        let pair = format!("{space},{}", "x".repeat(32));
        let warnings = load("", &[(key, &"x".repeat(32)), (others, &pair)], None).unwrap().warnings;
        assert!(warnings.len() == 1 && warnings[0].starts_with(&format!("{others} begins or ends")), "{warnings:?}");
    }
}
