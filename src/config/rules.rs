//! The values that each option accepts. The default file explains the options.

use hyper::Uri;
use toml::Value;
use tracing_subscriber::EnvFilter;

use super::bind::Bind;
use super::{cors, policy, quotas};
use crate::domain::address_rules::PortRange;
use crate::domain::limits::{CLAIM_TERM_S_MIN, MESSAGE_TTL_S_MIN};
use crate::domain::mail_address::AddressPattern;
use crate::domain::mail_config::parse_mailbox;
use crate::domain::network::Network;
use crate::domain::queue_id::PROJECT_ID_CHARS_MAX;
use crate::domain::quotas::QUOTA_MAX;
use crate::domain::subscription_draft::SUBSCRIPTION_TTL_S_MIN;
use crate::domain::trusted_proxy::TrustedProxy;
use crate::domain::{AuthStrategy, JwtAlgorithm, ProjectId, QueueId, QueueName, Token};
use crate::storage::StoreUri;

/// The values that an option accepts.
#[derive(Clone, Copy, Debug)]
pub(super) enum ValueRule {
    /// An integer between a minimum and a maximum, with its unit.
    Integer(u64, u64, &'static str),
    /// True or false.
    Boolean,
    /// One of the given words.
    OneOf(&'static [&'static str]),
    /// One of the given numbers.
    OneOfNumbers(&'static [i64]),
    /// The path of a file with the quotas of projects, or an empty text.
    QuotaFile,
    /// An address to listen on.
    Address,
    /// An address to listen on, or an empty text.
    OptionalAddress,
    /// `"*"` or a list of web origins.
    WebOrigins,
    /// The id of a project, or an empty text.
    OptionalProject,
    /// The HTTP URL of a collector, or an empty text.
    OptionalUrl,
    /// A list of queues, each as `PROJECT/QUEUE`.
    Queues,
    /// A list of IP networks.
    Networks,
    /// A list of IP networks and client certificates of proxies.
    Proxies,
    /// A list of ports and ranges of ports.
    Ports,
    /// A list of schemes of subscribers.
    Schemes,
    /// A list of strategies that find out who sends a request.
    Strategies,
    /// A list of rules of the policy.
    PolicyRules,
    /// A list of some of the given words.
    SomeOf(&'static [&'static str]),
    /// The name or address of a server, or an empty text.
    OptionalHost,
    /// The sender of mails, or an empty text.
    OptionalMailbox,
    /// A list of mail addresses and domains.
    MailAddresses,
    /// The text of a mail with a link.
    TextWithLink,
    /// Any text.
    Text,
    /// A text that is not empty.
    Name,
    /// A list of texts that are not empty.
    Names,
    /// The URL of a server with or without TLS, or an empty text.
    OptionalWebUrl,
    /// Any text, which is not the URL of a server with a user. It is not shown, because the user may
    /// have a password.
    TextWithoutUser,
    /// A password, which is never shown. It may be short, because other services choose it.
    Password,
    /// The URI of a store, which may contain a password.
    Store,
    /// Filter directives of `tracing`.
    Filter,
    /// The path of a file, or an empty text.
    OptionalFile,
    /// A secret, which is never shown.
    Secret,
    /// A list of secrets.
    Secrets,
    /// A token of the service, which is never shown, or an empty text.
    OptionalToken,
}

const YEAR_S: u64 = 366 * 24 * 3600;
const HOUR_S: u64 = 3600;
const LEEWAY_S_MAX: u64 = 600;
/// Maximum number of entries in a page. One script reads a page.
const PAGE_MAX: u64 = 1000;
/// Maximum number of messages in a post. One script stores them.
const POST_MESSAGES_MAX: u64 = 1000;
/// Maximum size of a request body, in bytes. One script stores all of it.
const BODY_BYTES_MAX: u64 = 4 << 20;
const THREADS_MAX: u64 = 1024;
const CONNECTIONS_MAX: u64 = 1_000_000;
/// Clients time out long before.
const QUEUEING_S_MAX: u64 = 60;
/// Each listed queue is read several times a minute.
const METRICS_QUEUES_MAX: usize = 500;
const SUBSCRIPTIONS_MAX: u64 = 100_000;
const TOKENS_MAX: u64 = 1_000_000;
const SCHEMES: [&str; 2] = ["http", "https"];
const CLIENT_ID_CHARS_MAX: u64 = 10_000;
const EXPECTED_ORIGINS: &str = "\"*\" or a list of origins such as \"http://localhost:3000\", each with its scheme and \
                                host, and its port unless that is the default, in lower case";

const MESSAGE_TTL: ValueRule = ValueRule::Integer(MESSAGE_TTL_S_MIN as u64, YEAR_S, "seconds");
const SUBSCRIPTION_TTL: ValueRule = ValueRule::Integer(SUBSCRIPTION_TTL_S_MIN, YEAR_S, "seconds");
const CLAIM_TERM: ValueRule = ValueRule::Integer(CLAIM_TERM_S_MIN as u64, YEAR_S, "seconds");
const DELAY: ValueRule = ValueRule::Integer(0, YEAR_S, "seconds");
const DURATION: ValueRule = ValueRule::Integer(1, YEAR_S, "seconds");
const PAGE: ValueRule = ValueRule::Integer(1, PAGE_MAX, "");
const BYTES: ValueRule = ValueRule::Integer(1, BODY_BYTES_MAX, "bytes");
const CONNECTIONS: ValueRule = ValueRule::Integer(1, CONNECTIONS_MAX, "");
const QUOTA: ValueRule = ValueRule::Integer(0, QUOTA_MAX, "");
const CHARACTERS: ValueRule = ValueRule::Integer(0, CLIENT_ID_CHARS_MAX, "characters");

/// The rule of every option.
pub(super) const RULES: &[(&str, ValueRule)] = &[
    ("bind", ValueRule::Address),
    ("store", ValueRule::Store),
    ("admin_mode", ValueRule::Boolean),
    ("enable_checksum", ValueRule::Boolean),
    ("threads", ValueRule::Integer(0, THREADS_MAX, "")),
    ("drain_timeout", ValueRule::Integer(0, YEAR_S, "seconds")),
    ("client_timeout", DURATION),
    ("max_connections", CONNECTIONS),
    ("tls.certificate", ValueRule::OptionalFile),
    ("tls.key", ValueRule::OptionalFile),
    ("tls.client_ca", ValueRule::OptionalFile),
    ("tls.client_certificate", ValueRule::OneOf(&["required", "optional"])),
    ("transport.default_message_ttl", MESSAGE_TTL),
    ("transport.max_message_ttl", MESSAGE_TTL),
    ("transport.default_message_delay", DELAY),
    ("transport.max_message_delay", DELAY),
    ("transport.default_claim_ttl", CLAIM_TERM),
    ("transport.default_claim_grace", CLAIM_TERM),
    ("transport.max_claim_ttl", CLAIM_TERM),
    ("transport.max_claim_grace", CLAIM_TERM),
    ("transport.message_delete_with_claim_id", ValueRule::Boolean),
    ("transport.max_queues_per_page", PAGE),
    ("transport.max_messages_per_page", PAGE),
    ("transport.default_subscription_ttl", SUBSCRIPTION_TTL),
    ("transport.max_subscriptions_per_page", PAGE),
    ("transport.max_messages_per_claim_or_pop", PAGE),
    ("transport.max_wait", ValueRule::Integer(0, HOUR_S, "seconds")),
    ("transport.max_waits_per_project", CONNECTIONS),
    ("transport.max_streams_per_project", CONNECTIONS),
    ("transport.max_redrives_per_project", CONNECTIONS),
    ("transport.max_tokens", ValueRule::Integer(1, TOKENS_MAX, "")),
    ("transport.max_tokens_per_project", ValueRule::Integer(1, TOKENS_MAX, "")),
    ("transport.max_queueing", ValueRule::Integer(1, QUEUEING_S_MAX, "seconds")),
    ("transport.max_durability_wait", ValueRule::Integer(1, QUEUEING_S_MAX, "seconds")),
    ("transport.stream_heartbeat", ValueRule::Integer(1, HOUR_S, "seconds")),
    ("transport.max_queue_metadata", BYTES),
    ("transport.max_messages_post_size", BYTES),
    ("transport.max_messages_per_post", ValueRule::Integer(1, POST_MESSAGES_MAX, "")),
    ("transport.idempotency_key_ttl", DURATION),
    ("transport.message_encryption_key", ValueRule::Secret),
    ("transport.message_decryption_keys", ValueRule::Secrets),
    ("transport.client_id_uuid_safe", ValueRule::OneOf(&["strict", "off"])),
    ("transport.min_length_client_id", CHARACTERS),
    ("transport.max_length_client_id", CHARACTERS),
    ("transport.client_id", ValueRule::OneOf(&["required", "optional"])),
    ("transport.default_project", ValueRule::OptionalProject),
    ("transport.cors_origins", ValueRule::WebOrigins),
    ("auth.strategies", ValueRule::Strategies),
    ("auth.trusted_proxies", ValueRule::Proxies),
    ("quotas.requests_per_second", QUOTA),
    ("quotas.posted_bytes_per_second", QUOTA),
    ("quotas.queues", QUOTA),
    ("quotas.subscriptions", QUOTA),
    ("quotas.messages", QUOTA),
    ("quotas.messages_per_queue", QUOTA),
    ("quotas.bytes", QUOTA),
    ("quotas.bytes_per_queue", QUOTA),
    ("quotas.projects_file", ValueRule::QuotaFile),
    ("quotas.rate_limit_status", ValueRule::OneOfNumbers(&[503, 429])),
    ("signed_url.secret_key", ValueRule::Secret),
    ("policy.preset", ValueRule::OneOf(&["zaqar", "roles"])),
    ("policy.rules", ValueRule::PolicyRules),
    ("tokens.admin_token", ValueRule::OptionalToken),
    ("tokens.admin_token_file", ValueRule::OptionalFile),
    ("signed_url.accepted_secret_key", ValueRule::Secret),
    ("push.max_subscriptions_per_queue", ValueRule::Integer(1, SUBSCRIPTIONS_MAX, "")),
    ("push.require_confirmation", ValueRule::Boolean),
    ("push.allowed_networks", ValueRule::Networks),
    ("push.allowed_ports", ValueRule::Ports),
    ("push.allowed_schemes", ValueRule::Schemes),
    ("push.max_connections", CONNECTIONS),
    ("push.max_connections_per_host", CONNECTIONS),
    ("push.disable_after", ValueRule::Integer(60, YEAR_S, "seconds")),
    ("mail.host", ValueRule::OptionalHost),
    ("mail.port", ValueRule::Integer(0, 65_535, "")),
    ("mail.encryption", ValueRule::OneOf(&["none", "starttls", "tls"])),
    ("mail.username", ValueRule::Text),
    ("mail.password", ValueRule::Password),
    ("mail.password_file", ValueRule::OptionalFile),
    ("mail.sender", ValueRule::OptionalMailbox),
    ("mail.allowed_senders", ValueRule::MailAddresses),
    ("mail.trusted_recipients", ValueRule::MailAddresses),
    ("mail.hello_name", ValueRule::OptionalHost),
    ("mail.max_connections", CONNECTIONS),
    ("mail.api_url", ValueRule::OptionalWebUrl),
    ("mail.external_confirmation_url", ValueRule::OptionalWebUrl),
    ("mail.confirmation_text", ValueRule::TextWithLink),
    ("mail.unsubscription_text", ValueRule::TextWithLink),
    ("jwt.issuer", ValueRule::TextWithoutUser),
    ("jwt.jwks", ValueRule::TextWithoutUser),
    ("jwt.audience", ValueRule::Names),
    ("jwt.algorithms", ValueRule::SomeOf(&JwtAlgorithm::NAMES)),
    ("jwt.project_claim", ValueRule::Name),
    ("jwt.roles_claim", ValueRule::Name),
    ("jwt.leeway", ValueRule::Integer(0, LEEWAY_S_MAX, "seconds")),
    ("keystone.auth_url", ValueRule::OptionalWebUrl),
    ("keystone.www_authenticate_uri", ValueRule::OptionalWebUrl),
    ("keystone.username", ValueRule::Text),
    ("keystone.password", ValueRule::Password),
    ("keystone.user_domain_name", ValueRule::Name),
    ("keystone.project_name", ValueRule::Name),
    ("keystone.project_domain_name", ValueRule::Name),
    ("keystone.service_token_roles", ValueRule::Names),
    ("pooling.enabled", ValueRule::Boolean),
    ("pooling.virtual_pool", ValueRule::Boolean),
    ("redis.ca_file", ValueRule::OptionalFile),
    ("redis.certificate_file", ValueRule::OptionalFile),
    ("redis.key_file", ValueRule::OptionalFile),
    ("embedded.fsync", ValueRule::OneOf(&["group", "interval", "off"])),
    ("janitor.pause", DURATION),
    ("janitor.walk", DURATION),
    ("operations.bind", ValueRule::OptionalAddress),
    ("websocket.bind", ValueRule::OptionalAddress),
    ("websocket.ping_interval", ValueRule::Integer(1, HOUR_S, "seconds")),
    ("websocket.idle_timeout", DURATION),
    ("websocket.max_connections", ValueRule::Integer(0, CONNECTIONS_MAX, "")),
    ("websocket.max_requests_per_project", CONNECTIONS),
    ("console.enabled", ValueRule::Boolean),
    ("metrics.queues", ValueRule::Queues),
    ("telemetry.otlp_endpoint", ValueRule::OptionalUrl),
    ("audit.file", ValueRule::OptionalFile),
    ("log.filter", ValueRule::Filter),
    ("log.format", ValueRule::OneOf(&["auto", "text", "json"])),
];

/// Pairs of options; the value of the first must not exceed that of the second.
pub(super) const LOWER_AND_UPPER: [(&str, &str); 5] = [
    ("transport.default_message_ttl", "transport.max_message_ttl"),
    ("transport.default_message_delay", "transport.max_message_delay"),
    ("transport.default_claim_ttl", "transport.max_claim_ttl"),
    ("transport.default_claim_grace", "transport.max_claim_grace"),
    ("transport.min_length_client_id", "transport.max_length_client_id"),
];

/// Length in bytes below which a secret causes a warning. It is the length of a SHA-256 digest, the
/// hash function that both secrets are used with.
pub(super) const SECRET_BYTES_MIN: usize = 32;

impl ValueRule {
    /// Converts text to a value of the option's type. Returns the text itself if it is not of that
    /// type.
    pub(super) fn parse(self, text: &str) -> Value {
        let typed = match self {
            Self::Integer(..) | Self::OneOfNumbers(_) => text.parse().ok().map(Value::Integer),
            Self::Boolean => text.parse().ok().map(Value::Boolean),
            Self::WebOrigins => Some(cors::parse(text)),
            Self::Queues
            | Self::Networks
            | Self::Proxies
            | Self::Ports
            | Self::Schemes
            | Self::Strategies
            | Self::PolicyRules
            | Self::SomeOf(_)
            | Self::MailAddresses
            | Self::Names => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Some(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
            }
            // White space is part of a secret, as in an option with a single one.
            Self::Secrets => {
                let items = text.split(',').filter(|item| !item.is_empty());
                Some(Value::Array(items.map(|item| Value::String(item.to_owned())).collect()))
            }
            Self::OneOf(_)
            | Self::Address
            | Self::OptionalAddress
            | Self::OptionalProject
            | Self::OptionalUrl
            | Self::OptionalWebUrl
            | Self::OptionalHost
            | Self::OptionalMailbox
            | Self::TextWithLink
            | Self::Text
            | Self::TextWithoutUser
            | Self::Name
            | Self::Password
            | Self::QuotaFile
            | Self::Store
            | Self::Filter
            | Self::OptionalFile
            | Self::OptionalToken
            | Self::Secret => None,
        };
        typed.unwrap_or_else(|| Value::String(text.to_owned()))
    }

    /// Checks a value. The error says what the option accepts.
    pub(super) fn check(self, value: &Value) -> Result<(), String> {
        let is_accepted = match (self, value) {
            (Self::Integer(min, max, _), Value::Integer(number)) => {
                u64::try_from(*number).is_ok_and(|number| (min..=max).contains(&number))
            }
            (Self::Boolean, Value::Boolean(_))
            | (Self::Secret | Self::Password | Self::Text | Self::OptionalFile, Value::String(_)) => true,
            (Self::TextWithoutUser, Value::String(text)) => !has_user(text),
            (Self::Name, Value::String(text)) => !text.is_empty(),
            (Self::OptionalHost, Value::String(text)) => text.is_empty() || is_host(text),
            (Self::OptionalMailbox, Value::String(text)) => text.is_empty() || parse_mailbox(text).is_some(),
            (Self::MailAddresses, Value::Array(items)) => all(items, |text| text.parse::<AddressPattern>().is_ok()),
            (Self::TextWithLink, Value::String(text)) => text.contains("{link}"),
            (Self::Names, Value::Array(names)) => all(names, |text| !text.is_empty()),
            (Self::SomeOf(words), Value::Array(items)) => all(items, |text| words.contains(&text)),
            (Self::OptionalWebUrl, Value::String(text)) => text.is_empty() || is_web_url(text),
            (Self::OptionalToken, Value::String(text)) => text.is_empty() || Token::parse(text).is_some(),
            (Self::OneOf(words), Value::String(text)) => words.contains(&text.as_str()),
            (Self::OneOfNumbers(numbers), Value::Integer(number)) => numbers.contains(number),
            (Self::QuotaFile, Value::String(path)) => return quotas::read(path).map(drop),
            (Self::Address, Value::String(text)) => text.parse::<Bind>().is_ok(),
            (Self::OptionalAddress, Value::String(text)) => text.is_empty() || text.parse::<Bind>().is_ok(),
            (Self::WebOrigins, value) => cors::origins(value).is_ok(),
            (Self::OptionalProject, Value::String(text)) => {
                text.chars().count() <= PROJECT_ID_CHARS_MAX && !text.contains(char::is_control)
            }
            (Self::Filter, Value::String(text)) => EnvFilter::try_new(text).is_ok(),
            (Self::OptionalUrl, Value::String(text)) => text.is_empty() || is_http_url(text),
            (Self::Queues, Value::Array(queues)) => {
                queues.len() <= METRICS_QUEUES_MAX && queues.iter().all(|text| text.as_str().and_then(queue).is_some())
            }
            (Self::Networks, Value::Array(networks)) => all(networks, |text| text.parse::<Network>().is_ok()),
            (Self::Proxies, Value::Array(proxies)) => all(proxies, |text| text.parse::<TrustedProxy>().is_ok()),
            (Self::Ports, Value::Array(ranges)) => all(ranges, |text| text.parse::<PortRange>().is_ok()),
            (Self::Secrets, Value::Array(secrets)) => all(secrets, |text| !text.is_empty()),
            (Self::Schemes, Value::Array(schemes)) => all(schemes, |text| SCHEMES.contains(&text)),
            (Self::Strategies, Value::Array(names)) => all(names, |text| AuthStrategy::NAMES.contains(&text)),
            (Self::PolicyRules, value) => return policy::overrides(value).map(drop),
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
            Self::Boolean => "true or false".to_owned(),
            Self::OneOf(words) => words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(" or "),
            Self::OneOfNumbers(numbers) => numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(" or "),
            Self::QuotaFile => "the path of a file with the quotas of projects, or empty".to_owned(),
            Self::Address => "HOST:PORT, :PORT or PORT, with a port from 0 to 65535".to_owned(),
            Self::OptionalAddress => "HOST:PORT, :PORT or PORT, with a port from 0 to 65535, or empty".to_owned(),
            Self::WebOrigins => EXPECTED_ORIGINS.to_owned(),
            Self::OptionalProject => format!(
                "the id of a project, with at most {PROJECT_ID_CHARS_MAX} characters and no control characters, or empty"
            ),
            Self::OptionalUrl => {
                "the URL of a server without TLS, such as \"http://127.0.0.1:4318\", or empty".to_owned()
            }
            Self::Queues => format!("a list of at most {METRICS_QUEUES_MAX} queues, each as \"PROJECT/QUEUE\""),
            Self::Networks => {
                "a list of IP networks and addresses such as \"10.0.0.0/8\", without bits after the prefix".to_owned()
            }
            Self::Proxies => {
                "a list of IP networks and addresses such as \"10.0.0.0/8\", without bits after the prefix, \
                              and of client certificates such as \"certificate:CN=proxy\""
                    .to_owned()
            }
            Self::Ports => "a list of ports from 1 to 65535 and ranges such as \"1024-65535\"".to_owned(),
            Self::Schemes => "a list of \"http\" and \"https\"".to_owned(),
            Self::Strategies => {
                let names = AuthStrategy::NAMES.map(|name| format!("{name:?}")).join(", ");
                format!("a list of strategies, of which there are {names}")
            }
            Self::PolicyRules => "a list of rules".to_owned(),
            Self::SomeOf(words) => {
                format!("a list of {}", words.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", "))
            }
            Self::Name => "a text that is not empty".to_owned(),
            Self::Names => "a list of texts that are not empty".to_owned(),
            Self::OptionalHost => "the name or address of a server, or empty".to_owned(),
            Self::OptionalMailbox => {
                "a mail address such as \"q@example.com\" or \"Queues <q@example.com>\", or empty".to_owned()
            }
            Self::MailAddresses => {
                "a list of mail addresses, domains such as \"@example.com\", and \"*\" for all".to_owned()
            }
            Self::TextWithLink => "text in quotes that contains {link}".to_owned(),
            Self::OptionalWebUrl => {
                "the URL of a server without a user and a query, such as \"https://keystone.example.com/v3\", or empty"
                    .to_owned()
            }
            Self::Store => "the URI of a store".to_owned(),
            Self::Filter => "error, warn, info, debug or trace, or a list with levels for modules".to_owned(),
            Self::OptionalFile => "the path of a file in quotes, or empty".to_owned(),
            Self::OptionalToken => "a token that `sukkal token generate` has printed, or empty".to_owned(),
            Self::Secrets => "a list of texts in quotes, none of which is empty".to_owned(),
            Self::TextWithoutUser => "text in quotes; a URL must not have a user or a password".to_owned(),
            Self::Secret | Self::Password | Self::Text => "text in quotes".to_owned(),
        }
    }

    /// Whether messages show a value. Otherwise it is secret, or the message names the part of it
    /// that is wrong.
    pub(super) fn is_shown(self) -> bool {
        !matches!(
            self,
            Self::PolicyRules
                | Self::Store
                | Self::OptionalWebUrl
                | Self::TextWithoutUser
                | Self::OptionalToken
                | Self::Secret
                | Self::Secrets
                | Self::Password
        )
    }
}

/// Returns whether all items of a list are texts that are accepted.
fn all(items: &[Value], is_accepted: impl Fn(&str) -> bool) -> bool {
    items.iter().all(|item| item.as_str().is_some_and(&is_accepted))
}

/// Returns whether a text is the URL of a server that is reached without TLS and without a password.
fn is_http_url(text: &str) -> bool {
    let is_plain = |url: &Uri| url.scheme_str() == Some("http") && url.query().is_none();
    text.parse::<Uri>().is_ok_and(|url| is_plain(&url) && !text.contains('@'))
}

/// Returns whether a text is the URL of a server, without a password.
fn is_web_url(text: &str) -> bool {
    let is_plain = |url: &Uri| url.host().is_some() && url.query().is_none() && !text.contains(['@', '#', '"']);
    let has_scheme = |url: &Uri| matches!(url.scheme_str(), Some("http" | "https"));
    text.parse::<Uri>().is_ok_and(|url| has_scheme(&url) && is_plain(&url))
}

/// Returns whether a text is the name or the address of a host.
fn is_host(text: &str) -> bool {
    let is_name = text.chars().all(|character| character.is_ascii_alphanumeric() || "-._".contains(character));
    is_name || text.parse::<std::net::IpAddr>().is_ok()
}

/// Returns whether a text is a URL with a user, a password, or both.
fn has_user(text: &str) -> bool {
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}

/// Returns the queue that is written as `PROJECT/QUEUE`. The project may contain slashes.
pub(super) fn queue(text: &str) -> Option<QueueId> {
    let (project, name) = text.rsplit_once('/')?;
    QueueId::new(ProjectId::new(project)?, QueueName::from_stored(name).ok()?).ok()
}
