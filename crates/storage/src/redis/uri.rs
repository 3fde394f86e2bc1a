//! Store URIs: `redis://`, `rediss://`, `redis-cluster://h1:p,h2:p`,
//! `redis-sentinel://h1:p,h2:p/MASTER?sentinel_password=PASSWORD`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use fred::types::config::{Config, Server, ServerConfig, TlsConnector};
use percent_encoding::percent_decode_str;

use super::tls::{TlsError, TlsFiles};
use sukkal_domain::{HostAndPort, PoolUri, RedisUriParts};

/// The address of a Redis server, cluster or Sentinel group. Displayed without its passwords.
#[derive(Clone)]
pub struct RedisUri {
    config: Config,
    sentinel_credentials: Credentials,
    uses_tls: bool,
    tls: TlsFiles,
    pub(super) clock: Clock,
    shown: String,
}

/// Connects to pools in Redis, with these files for those that use TLS, and with this clock.
#[derive(Clone, Debug, Default)]
pub struct RedisPools {
    pub(super) tls: TlsFiles,
    pub(super) clock: Clock,
}

/// The clock that scripts read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// `TIME` of Redis.
    #[default]
    Redis,
    /// For tests: `TIME` of Redis plus an offset, which tests set for each queue. Such a store has
    /// a layout of its own, so that no other process uses it.
    Movable,
}

/// The user and the password that a server gets.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

/// The reason why a text is not a Redis address. The text itself is not displayed: if it is
/// malformed, it may contain a password anywhere.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a Redis address: {reason}; a valid one is redis://USER:PASSWORD@HOST:6379")]
pub struct InvalidUri {
    reason: &'static str,
}

const MALFORMED: &str =
    "its host, port or database is invalid; in a password, / # ? and @ are written as %2F %23 %3F and %40";

impl RedisUri {
    /// Returns the address of a pool, with these files for TLS if the address asks for TLS.
    pub fn of_pool(uri: &PoolUri, tls: &TlsFiles) -> Result<Self, InvalidUri> {
        let address = Self::try_from(uri.store())?;
        Ok(if address.uses_tls { address.with_tls(tls.clone()) } else { address })
    }

    /// Returns the address with these files for TLS.
    #[must_use]
    pub fn with_tls(self, tls: TlsFiles) -> Self {
        Self { tls, ..self }
    }

    /// Returns the address for scripts that read this clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// Returns whether the address asks for TLS.
    #[must_use]
    pub fn uses_tls(&self) -> bool {
        self.uses_tls
    }

    pub(super) fn config(&self) -> Result<Config, TlsError> {
        let mut config = self.config.clone();
        if self.uses_tls {
            config.tls = Some(TlsConnector::from(self.tls.client_config()?).into());
        } else {
            self.tls.require_none()?;
        }
        Ok(config)
    }

    pub(super) fn sentinel_credentials(&self) -> &Credentials {
        &self.sentinel_credentials
    }
}

impl fmt::Display for RedisUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUri({self})")
    }
}

impl FromStr for RedisUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri = RedisUriParts::of(text).ok_or(InvalidUri { reason: "it does not begin with redis://" })?;
        Self::try_from(uri)
    }
}

impl TryFrom<RedisUriParts<'_>> for RedisUri {
    type Error = InvalidUri;

    fn try_from(uri: RedisUriParts<'_>) -> Result<Self, InvalidUri> {
        let invalid = |reason| InvalidUri { reason };
        let config = config_of(&uri).map_err(invalid)?;
        let sentinel_credentials = match uri.query {
            None => Credentials { username: config.username.clone(), password: config.password.clone() },
            Some(query) if config.server.is_sentinel() => read_credentials(query).map_err(invalid)?,
            Some(_) => return Err(invalid("only redis-sentinel:// may have a query")),
        };
        Ok(Self {
            config,
            sentinel_credentials,
            uses_tls: uri.scheme.starts_with("rediss"),
            tls: TlsFiles::default(),
            clock: Clock::default(),
            shown: uri.to_string(),
        })
    }
}

/// Reads the parameters with the credentials of Sentinels. An empty value is the same as none.
fn read_credentials(query: &str) -> Result<Credentials, &'static str> {
    let (mut username, mut password) = (None, None);
    for parameter in query.split('&') {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value = percent_decode_str(value).decode_utf8().map_err(|_| "a parameter of its query is not UTF-8")?;
        let value = Some(value.into_owned()).filter(|value| !value.is_empty());
        match name {
            "sentinel_username" => username = value,
            "sentinel_password" => password = value,
            _ => return Err("the parameters of its query must be sentinel_username and sentinel_password"),
        }
    }
    if username.is_some() && password.is_none() {
        return Err("sentinel_username needs sentinel_password");
    }
    Ok(Credentials { username, password })
}

/// Returns the configuration for an address, whose query does not matter.
fn config_of(uri: &RedisUriParts<'_>) -> Result<Config, &'static str> {
    let credentials = uri.credentials.unwrap_or_default();
    if credentials.contains(['/', '#', '?']) {
        return Err(MALFORMED);
    }
    if uri.hosts.is_empty() {
        return Err("it has no host");
    }
    let hosts = uri.host_list().ok_or(MALFORMED)?;
    let mut hosts: Vec<_> = hosts.into_iter().map(|HostAndPort { host, port }| (host, port)).collect();
    let (path, mut database) = (uri.path, None);
    let server = match (uri.scheme.replacen("rediss", "redis", 1).as_str(), hosts.len()) {
        ("redis", 1) => {
            database = if path.is_empty() { None } else { Some(path.parse().map_err(|_| MALFORMED)?) };
            let (host, port) = hosts.remove(0);
            ServerConfig::new_centralized(host, port)
        }
        ("redis", _) => return Err("several hosts need redis-cluster:// or redis-sentinel://"),
        ("redis-cluster", _) if path.is_empty() => ServerConfig::new_clustered(hosts),
        ("redis-cluster", _) => return Err("a cluster has no databases"),
        ("redis-sentinel", _) if path.is_empty() => return Err("the master's name is missing after the hosts"),
        ("redis-sentinel", _) => ServerConfig::new_sentinel(hosts, decoded(path)?),
        _ => {
            return Err(
                "its scheme must be redis, redis-cluster or redis-sentinel, or for TLS rediss, rediss-cluster or rediss-sentinel",
            );
        }
    };
    let (username, password) = credentials.split_once(':').unwrap_or((credentials, ""));
    let unless_empty = |text| Ok::<_, &'static str>(Some(decoded(text)?).filter(|text| !text.is_empty()));
    let (username, password) = (unless_empty(username)?, unless_empty(password)?);
    // A store that is unreachable at the start is waited for, like one that becomes unreachable
    // later.
    Ok(Config { server, username, password, database, fail_fast: false, ..Config::default() })
}

/// Returns a part of a URI without percent-encoding.
fn decoded(text: &str) -> Result<String, &'static str> {
    if text.contains('#') {
        return Err(MALFORMED);
    }
    percent_decode_str(text).decode_utf8().map(Cow::into_owned).map_err(|_| MALFORMED)
}

/// Returns the address of a server as texts show it.
pub(super) fn shown(Server { host, port, .. }: &Server) -> String {
    HostAndPort { host: host.to_string(), port: *port }.to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_for_tls_are_used_only_with_tls() {
        let path = || Some("/no/such/file".into());
        let files = |ca, certificate, key| TlsFiles { ca, certificate, key };
        for (uri, files, expected) in [
            ("redis://h", files(path(), None, None), "ca_file is set in [redis], but the store does not use TLS"),
            ("rediss-cluster://h:1", files(path(), None, None), "ca_file in [redis] is /no/such/file: No such file"),
            ("rediss://h", files(None, path(), None), "certificate_file in [redis] needs key_file"),
            ("rediss://h", files(None, None, path()), "key_file in [redis] needs certificate_file"),
        ] {
            let error = uri.parse::<RedisUri>().unwrap().with_tls(files).config().unwrap_err().to_string();

            assert!(error.starts_with(expected), "{uri}: {error}");
        }
        assert_eq!("redis://h".parse::<RedisUri>().unwrap().config().unwrap().tls, None);
    }

    #[test]
    fn an_address_has_hosts_of_both_families() {
        for (text, hosts, expected) in [
            ("redis://h", "h:6379", ServerConfig::new_centralized("h", 6_379)),
            ("redis://[::1]", "[::1]:6379", ServerConfig::new_centralized("::1", 6_379)),
            ("redis://[::1]:1/3", "[::1]:1", ServerConfig::new_centralized("::1", 1)),
            ("redis-cluster://u:p@[::1]:1", "[::1]:1", ServerConfig::new_clustered(vec![("::1", 1)])),
            (
                "redis-cluster://[::1]:1,[::2]",
                "[::1]:1, [::2]:6379",
                ServerConfig::new_clustered(vec![("::1", 1), ("::2", 6_379)]),
            ),
            (
                "redis-cluster://h1,[0:0::2]:2,1.2.3.4:3",
                "h1:6379, [::2]:2, 1.2.3.4:3",
                ServerConfig::new_clustered(vec![("h1", 6_379), ("::2", 2), ("1.2.3.4", 3)]),
            ),
            (
                "redis-sentinel://[::1],h2,[::3]:3/my%20main",
                "[::1]:26379, h2:26379, [::3]:3",
                ServerConfig::new_sentinel(vec![("::1", 26_379), ("h2", 26_379), ("::3", 3)], "my main"),
            ),
        ] {
            for (text, with_tls) in [(text.to_owned(), false), (text.replacen("redis", "rediss", 1), true)] {
                let uri: RedisUri = text.parse().unwrap();
                assert_eq!((&uri.config.server, uri.uses_tls), (&expected, with_tls), "{text}");
                assert_eq!(uri.config.server.hosts().iter().map(shown).collect::<Vec<_>>().join(", "), hosts);
                let pool: PoolUri = text.parse().unwrap();
                assert_eq!(RedisUri::of_pool(&pool, &TlsFiles::default()).unwrap().config.server, expected, "{text}");
            }
        }
        assert_eq!("redis://h/3".parse::<RedisUri>().unwrap().config.database, Some(3));
    }

    #[test]
    fn credentials_are_decoded() {
        for (credentials, username, password) in [
            ("", None, None),
            ("u@", Some("u"), None),
            (":p@", None, Some("p")),
            ("u:@", Some("u"), None),
            ("u%40h:p%3A%2F%23%3f%25é@", Some("u@h"), Some("p:/#?%é")),
            ("u:p:q+r@s@", Some("u"), Some("p:q+r@s")),
        ] {
            let RedisUri { config, .. } = format!("redis://{credentials}h").parse().unwrap();
            assert_eq!((config.username.as_deref(), config.password.as_deref()), (username, password), "{credentials}");
        }
    }

    #[test]
    fn sentinels_get_the_credentials_of_the_query() {
        let credentials = |username: Option<&str>, password: Option<&str>| Credentials {
            username: username.map(str::to_owned),
            password: password.map(str::to_owned),
        };
        for (query, expected) in [
            ("", credentials(Some("u"), Some("p"))),
            ("?sentinel_password=s", credentials(None, Some("s"))),
            ("?sentinel_username=w&sentinel_password=a%40b%26c+d", credentials(Some("w"), Some("a@b&c+d"))),
            ("?sentinel_password=", credentials(None, None)),
        ] {
            let uri: RedisUri = format!("redis-sentinel://u:p@h1:1,h2:2/main{query}").parse().unwrap();

            assert!(*uri.sentinel_credentials() == expected, "{query}");
            let hidden = if query.is_empty() { "" } else { "?***" };
            assert_eq!(uri.to_string(), format!("redis-sentinel://***@h1:1,h2:2/main{hidden}"));
        }
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for text in [
            "",
            "redis",
            "redis://",
            "http://h",
            "redis://h1:1,h2:2",
            "redis-sentinel://h1:1",
            "redis://h?db=1",
            "redis-cluster://h/3",
            "redis-cluster://h?sentinel_password=p",
            "redis://u:p?h@h",
            "redis-sentinel://h:1/main?master=main",
            "redis-sentinel://h:1/main?sentinel_username=u",
            "redis-sentinel://h:1/main?sentinel_password=%ff",
            "redis://::1",
            "redis://[::1",
            "redis://[h]",
            "redis://h:p",
            "redis://h/x",
            "redis://h/1/",
            "redis-cluster://[::1],",
            "redis-cluster://[::1]:1,::2:2",
            "redis-sentinel://h,[::1]1/main",
            "redis://u:%ff@h",
        ] {
            assert!(text.parse::<RedisUri>().is_err(), "{text}");
        }
    }

    proptest! {
        /// Tries passwords in their place and, as in an address with a mistake, anywhere.
        #[test]
        fn a_password_is_never_shown(
            before in "(redis|rediss|redis-cluster|redis-sentinel|http)?:?/{0,2}[a-z:@?,/%\\[#]{0,6}",
            after in "[@:?,/%\\]#]{0,3}[a-z0-9.:,@?/]{0,12}",
        ) {
            let text = format!("{before}SECRET{after}");
            let shown = match text.parse::<RedisUri>() {
                Ok(uri) => uri.to_string(),
                Err(error) => error.to_string(),
            };

            // The text after the last @ of a valid address, and before a query, is a host.
            let is_host = text.rfind('@') < text.find("SECRET") && !text[..text.find("SECRET").unwrap()].contains('?');
            prop_assert!(!shown.contains("SECRET") || !text.contains('@') || is_host, "{shown}");
        }
    }
}
