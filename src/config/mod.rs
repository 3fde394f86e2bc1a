//! The configuration: the defaults, overridden by a file, the environment, and flags, in this
//! order.
//!
//! The tables of `options!` declare all options: here and in the modules of sections, or in
//! `domain` if the service needs them as a whole. `config/default.toml` shows them. An unknown
//! option in a file is an error. In the environment, where other programs set variables too, it is
//! only a warning.

mod auth;
mod bind;
mod console;
mod cors;
mod error;
mod file;
mod mail;
mod names;
mod policy;
mod quotas;
mod sections;
mod settings;
mod tls;
mod tokens;
mod transport;
mod unencrypted;
mod values;
mod warnings;
mod websocket;

use std::path::Path;

use serde::Deserialize;

pub use self::auth::Auth;
use self::bind::ADDRESS;
pub use self::bind::Bind;
pub use self::console::Console;
pub use self::error::Error;
pub use self::quotas::Quotas;
pub use self::sections::{
    Audit, Embedded, Fsync, Janitor, Log, LogFormat, Metrics, Operations, Pooling, Redis, SignedUrl, Telemetry,
};
use self::settings::Settings;
pub use self::tls::{ClientCertificate, Tls};
pub use self::tokens::Tokens;
pub use self::transport::Transport;
pub use self::websocket::WebSocket;
use crate::auth::policy::Policy;
use sukkal_domain::options::{Declarations, Rule, options};
use sukkal_domain::{JwtConfig, KeystoneConfig, MailConfig, PushConfig};
use sukkal_storage::StoreUri;

options! {
    /// All options.
    #[derive(Clone, Debug, Deserialize)]
    pub struct Config {
        //! Every option of Sukkal with its default value.
        //!
        //! `sukkal serve --config FILE` reads a file like this one. The file needs only the options
        //! whose values differ from the defaults. An environment variable overrides the file, and a
        //! command-line flag overrides both. The variable has the name of the option in upper case,
        //! with the prefix SUKKAL_ and two underscores after the section: SUKKAL_BIND,
        //! SUKKAL_TRANSPORT__MAX_MESSAGE_TTL.
        //!
        //! If an option has an invalid value, Sukkal exits with code 2 and an error message that
        //! contains the reason. An unknown option in the file is an error too. An environment
        //! variable SUKKAL_* that names no option is logged as a warning and has no effect.
        //!
        //! The comment on an option says which values are accepted. 31622400 seconds are 366 days.

        /// Address on which the HTTP API listens. Accepted values:
        ///   "HOST:PORT"   an address or name of this machine: "127.0.0.1:8888", "localhost:8888",
        ///                 "[::1]:8888"
        ///   "PORT"        the port on 127.0.0.1, so that only this machine can reach it: "8888"
        ///   ":PORT"       the port on all IPv4 and IPv6 addresses of this machine: ":8888"
        /// The port is an integer from 0 to 65535. With port 0, the operating system chooses a free
        /// port. The log contains the address. The default is "127.0.0.1:8888".
        pub bind: Bind = "127.0.0.1:8888" in ADDRESS;

        /// Store that contains the queues and messages, as a URI. Accepted values:
        ///   embedded:PATH                            a file in the directory PATH; see [embedded]
        ///   memory:                                  the memory of the process, for tests
        ///   redis://[USER:PASSWORD@]HOST:PORT[/DB]   one Redis server
        ///   redis-cluster://HOST:PORT,HOST:PORT,...  a Redis Cluster; some of its nodes are sufficient
        ///   redis-sentinel://HOST:PORT,.../MASTER    the master with this name, found through Sentinels;
        ///                                            ?sentinel_password=PASSWORD at the end is for these
        /// An IPv6 address is in brackets: redis-cluster://[::1]:6379,HOST:6379. The default port
        /// is 6379, or 26379 for a Sentinel. rediss://, rediss-cluster:// and rediss-sentinel://
        /// use TLS; see [redis]. Redis must not evict keys, so set its `maxmemory-policy` to
        /// `noeviction`. Use Redis to run more than one process. The default is
        /// "embedded:./sukkal-data".
        #[serde(deserialize_with = "values::store")]
        pub store: StoreUri = "embedded:./sukkal-data" in values::STORE;

        /// Enables the administrative routes /v2/health, /v2/projects, /v2/backup and /v2/quotas,
        /// which require the role "admin", and with [pooling] also /v2/pools and /v2/flavors. With
        /// this role, the query parameter project_id acts on any project. The strategy in [auth]
        /// says where the roles of a request come from. With the strategy "none", every client can
        /// give itself the role. Accepted: true or false. The default is false.
        pub admin_mode: bool = false in Rule::Boolean;

        /// Adds a checksum of the body to each message in responses: "checksum": "MD5:...". Enable
        /// it if clients verify checksums. Accepted: true or false. The default is false.
        pub enable_checksum: bool = false in Rule::Boolean;

        /// Number of threads that process requests. Accepted: 0 to 1024. The default is 0: the
        /// number of CPU cores minus one, but at least 1. The remaining core is for the store.
        pub threads: usize = 0 in Rule::Integer(0, 1024, "");

        /// Time after SIGTERM, SIGINT or SIGHUP in which Sukkal says that it is not ready and still
        /// answers requests, in seconds, so that a load balancer notices before connections are
        /// refused. Choose the interval of its checks, times the failures that it needs, and 1
        /// second more. Accepted: 0 to 31622400, and at most `drain_timeout`. The default is 0.
        #[serde(rename = "drain_delay")]
        pub drain_delay_s: u64 = 0 in Rule::DELAY;

        /// Maximum time for which Sukkal waits for the requests in progress after SIGTERM, SIGINT
        /// or SIGHUP, in seconds, `drain_delay` included. Accepted: 0 to 31622400. The default is
        /// 30.
        #[serde(rename = "drain_timeout")]
        pub drain_timeout_s: u64 = 30 in Rule::DELAY;

        /// Timeout for clients, in seconds. It limits the time to send the URL and the headers of a
        /// request, and each pause while a body is sent. The time to send a complete body is
        /// limited to twice this value. Accepted: 1 to 31622400. The default is 60.
        #[serde(rename = "client_timeout")]
        pub client_timeout_s: u64 = 60 in Rule::DURATION;

        /// Maximum time for which a connection is idle between two requests, in seconds. Behind a
        /// load balancer, it must be longer than the time after which the balancer closes idle
        /// connections, which is often 60 seconds. Otherwise the balancer can send a request over a
        /// connection that is just being closed. Accepted: 1 to 31622400. The default is 75.
        #[serde(rename = "idle_timeout")]
        pub idle_timeout_s: u64 = 75 in Rule::DURATION;

        /// Maximum number of open client connections. At the maximum, a new connection replaces one
        /// of a client that has sent no accepted request, or else the one that has been idle for
        /// the longest time. If no connection has been idle for a second, Sukkal closes another one
        /// after its next response. Sukkal raises its limit on open files as far as possible, and
        /// logs a warning if that limit allows fewer connections. Accepted: 1 to 1000000. The
        /// default is 16000.
        pub max_connections: usize = 16_000 in Rule::CONNECTIONS;

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
        #[serde(deserialize_with = "policy::compile")]
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
        /// Whether tests can move the clock of each queue in Redis, from a variable that is not an
        /// option.
        #[serde(skip)]
        pub has_movable_clock: bool,
        /// Mistakes that do not prevent the service from running, one line each.
        #[serde(skip)]
        pub warnings: Vec<String>;
    }
}

/// Returns the text of `config/default.toml`: every option with its default value and an
/// explanation.
#[must_use]
pub fn explained_defaults() -> String {
    Declarations::of::<Config>().into_text()
}

/// Returns the variable of the command line that a misspelled environment variable most resembles,
/// if any.
#[must_use]
pub fn client_variable_meant_by(variable: &str, value: &str) -> Option<String> {
    let options = Declarations::of::<Config>().into_options().into_iter().map(|option| option.name);
    names::client_variable_meant_by(variable, value, options)
}

impl Config {
    /// Loads all options from a file, environment variables, and flags, which set options outside
    /// of sections.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
        flags: &[(&str, Option<String>)],
    ) -> Result<Self, Error> {
        let mut settings = Settings::new(Declarations::of::<Self>().into_options());
        if let Some(path) = file {
            let entries = file::read(path, |name| settings.is_section(name))?;
            settings.set_from_file(entries)?;
        }
        let mut environment: Vec<_> = environment.into_iter().collect();
        let has_movable_clock =
            environment.extract_if(.., |(variable, _)| variable == names::MOVABLE_CLOCK).count() > 0;
        let names_collector = environment
            .iter()
            .any(|(variable, value)| names::COLLECTOR.contains(&variable.as_str()) && !value.is_empty());
        let names_filter = environment.iter().any(|(variable, _)| variable == names::RUST_LOG);
        let mut warnings = settings.set_from_environment(environment);
        warnings.extend(names_filter.then(|| format!("{} has no effect; set log.filter instead", names::RUST_LOG)));
        for (name, text) in flags {
            if let Some(text) = text {
                settings.set_from_flag(name, text);
            }
        }
        settings.validate()?;
        warnings.extend(settings.secret_warnings());
        let is_set = [
            "tls.client_certificate",
            "embedded.fsync",
            "transport.min_length_client_id",
            "transport.max_length_client_id",
        ]
        .map(|option| settings.is_set(option));
        let config = Self::deserialize(settings.into_table());
        let config = config.map_err(|error| Error::Invalid(error.message().replace('\n', " ")))?;
        config.tls.check().map_err(Error::Invalid)?;
        mail::check(&config.mail, &config.signed_url).map_err(Error::Invalid)?;
        warnings.extend(config.useless_options(is_set, names_collector));
        warnings.extend(config.tokens.check(&config.auth.strategies)?);
        warnings.extend(config.auth.check(&config.tls)?);
        warnings.extend(unencrypted::warnings(&config));
        Ok(Self { has_movable_clock, warnings, ..config })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sukkal_domain::options::Declared;
    use sukkal_domain::{JwtAlgorithm, MonitoredQueues, Secret, Token};

    fn load(file: &str, environment: &[(&str, &str)], store: Option<&str>) -> Result<Config, Error> {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), file).unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(Some(path.path()), environment, &[("store", store.map(str::to_owned))])
    }

    #[test]
    fn the_default_file_has_the_text_of_the_tables() {
        let (text, file) = (explained_defaults(), include_str!("../../config/default.toml"));
        let differs = text.lines().zip(file.lines()).find(|(expected, found)| expected != found);

        assert!(text == file, "write it again with `sukkal config > config/default.toml`: {differs:?}");
    }

    #[test]
    fn the_explanation_of_an_integer_has_its_bounds_and_its_default() {
        let mut options = Declarations::of::<Config>().into_options().into_iter();
        let mut explanation = String::new();
        for line in explained_defaults().lines() {
            if let Some(words) = line.strip_prefix("# ") {
                explanation.extend([words, " "]);
                continue;
            }
            let option = line.split_once(" = ").and_then(|_| options.next());
            if let Some(Declared { name, rule: Rule::Integer(min, max, _), default }) = option {
                for expected in [format!("Accepted: {min} to {max}"), format!("The default is {default}")] {
                    assert!(explanation.contains(&expected), "{name}: {expected}");
                }
            }
            explanation.clear();
        }
        assert!(options.next().is_none());
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
        let config = load("", &[("SUKKAL_KEYSTONE__PASSWORD", "hush")], None).unwrap();

        assert_eq!(config.keystone.password.reveal(), Some("hush"));
        assert_eq!(config.warnings, [""; 0]);
        assert!(!format!("{config:?}").contains("hush"), "{config:?}");
    }

    #[test]
    fn a_list_in_the_environment_has_commas() {
        let config = load("", &[("SUKKAL_JWT__AUDIENCE", "queues, messages")], None).unwrap();

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
        let file = "[metrics]\nqueues = [\"my/team/orders\", \"p/*\", \"p/q\", \"p/q\"]";
        let written = |queues: &MonitoredQueues| match queues {
            MonitoredQueues::Queue(queue) => queue.to_string(),
            MonitoredQueues::Project(project) => format!("all of {project}"),
        };
        let shown = |config: Config| config.metrics.queues.iter().map(written).collect::<Vec<_>>();

        assert_eq!(shown(load(file, &[], None).unwrap()), ["my/team/orders", "p/q", "all of p"]);
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
            ("SUKKAL_PORT", "9000"),
            ("HOME", "/"),
        ];

        let warnings = load("", &environment, None).unwrap().warnings;

        assert_eq!(
            warnings,
            [
                "the environment variable SUKKAL_STROE does not name an option and is ignored; did you mean SUKKAL_STORE?",
                "the environment variable SUKKAL_TRANSPORT does not name an option and is ignored",
                "the environment variable SUKKAL_PORT does not name an option and is ignored; did you mean SUKKAL_BIND?",
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
    fn an_empty_variable_that_overrides_the_file_causes_a_warning() {
        let (file, variable) =
            ("[auth]\nstrategies = [\"tokens\"]\n[policy]\npreset = \"roles\"", "SUKKAL_AUTH__STRATEGIES");

        let warnings = load(file, &[(variable, "")], None).unwrap().warnings;

        let expected = format!("the environment variable {variable} is empty and overrides auth.strategies (in ");
        let preset = "policy.preset \"roles\" has no effect";
        assert!(warnings.len() == 2 && warnings[0].starts_with(&expected), "{warnings:?}");
        assert!(warnings[1].starts_with(preset), "{warnings:?}");
        assert_eq!(load(file, &[(variable, "tokens")], None).unwrap().warnings, [""; 0]);
        assert_eq!(load("", &[(variable, "")], None).unwrap().warnings, [""; 0]);
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
