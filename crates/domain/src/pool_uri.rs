//! The URI of a pool: `redis://`, `rediss://`, `redis-cluster://` or `redis-sentinel://`, as for a
//! store. After the address of a single server, a name may stand in place of the number of a
//! database. It only tells pools apart: their queues are in database 0. After the name of a master,
//! a query may have the credentials of the Sentinels.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use zeroize::Zeroizing;

use super::HostAndPort;

/// Maximum length of a URI, in characters.
pub const POOL_URI_CHARS_MAX: usize = 255;

/// Stands for a user and a password where a URI is shown, and for a query.
const MASK: &str = "***";
const SCHEMES: [&str; 6] = ["redis", "rediss", "redis-cluster", "rediss-cluster", "redis-sentinel", "rediss-sentinel"];
const PORT: u16 = 6_379;
const SENTINEL_PORT: u16 = 26_379;

/// The URI of a pool. It is shown without its user, its password and its query, and its memory is
/// overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct PoolUri(Zeroizing<String>);

/// Reasons for which the URI of a pool is refused. The URI is not displayed, because it may contain
/// a password.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidPoolUri {
    /// The scheme is not one of Redis.
    #[error("the uri of a pool must begin with redis://, rediss://, redis-cluster:// or redis-sentinel://")]
    Scheme,
    /// The text is too long.
    #[error("the uri of a pool must have at most {POOL_URI_CHARS_MAX} characters")]
    Length,
    /// It has spaces or a fragment, a query where none is possible, or a host that is none.
    #[error(
        "the uri of a pool must name valid hosts and ports, with IPv6 addresses in brackets, and have no spaces, ? or #, such as redis://USER:PASSWORD@HOST:6379; \
         only redis-sentinel:// may have a query, after the name of the master"
    )]
    Form,
}

/// The parts of the URI of a store or pool, as they are written. They are shown without the user,
/// the password and the query.
#[derive(Clone, Copy)]
pub struct RedisUriParts<'u> {
    /// The text before `://`.
    pub scheme: &'u str,
    /// The user and the password.
    pub credentials: Option<&'u str>,
    /// The hosts and the path.
    address: &'u str,
    /// The hosts, which may have ports.
    pub hosts: &'u str,
    /// The number of a database, a label or the name of a master.
    pub path: &'u str,
    /// The text after the question mark.
    pub query: Option<&'u str>,
}

impl<'u> RedisUriParts<'u> {
    /// Splits a URI at its separators. Returns `None` if the text has no scheme.
    #[must_use]
    pub fn of(text: &'u str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (address, query) = match rest.split_once('?') {
            Some((address, query)) => (address, Some(query)),
            None => (rest, None),
        };
        let (hosts, path) = address.split_once('/').unwrap_or((address, ""));
        Some(Self { scheme, credentials, address, hosts, path, query })
    }

    /// Returns the hosts with their ports, or `None` if one of them is not valid.
    #[must_use]
    pub fn host_list(&self) -> Option<Vec<HostAndPort>> {
        let default_port = if self.scheme.ends_with("-sentinel") { SENTINEL_PORT } else { PORT };
        HostAndPort::parse_list(self.hosts, default_port)
    }
}

impl fmt::Display for RedisUriParts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, address, .. } = self;
        let user = if self.credentials.is_some() { format!("{MASK}@") } else { String::new() };
        let query = if self.query.is_some() { format!("?{MASK}") } else { String::new() };
        write!(f, "{scheme}://{user}{address}{query}")
    }
}

impl FromStr for PoolUri {
    type Err = InvalidPoolUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_of_redis = |uri: &RedisUriParts<'_>| SCHEMES.contains(&uri.scheme);
        let uri = RedisUriParts::of(text).filter(is_of_redis).ok_or(InvalidPoolUri::Scheme)?;
        if text.chars().count() > POOL_URI_CHARS_MAX {
            return Err(InvalidPoolUri::Length);
        }
        let question_marks = usize::from(uri.query.is_some() && uri.scheme.ends_with("-sentinel"));
        let is_refused = |char: char| char.is_whitespace() || char.is_control() || char == '#';
        let has_hosts = uri.host_list().is_some();
        if text.contains(is_refused) || text.matches('?').count() != question_marks || !has_hosts {
            return Err(InvalidPoolUri::Form);
        }
        Ok(Self(text.to_owned().into()))
    }
}

impl PoolUri {
    /// Returns the complete text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns whether the URI has a user or a password, of its servers or of Sentinels.
    #[must_use]
    pub fn has_credentials(&self) -> bool {
        let RedisUriParts { credentials, query, .. } = self.parts();
        credentials.is_some() || query.is_some()
    }

    /// Returns whether the URI has the mask of shown URIs in place of a user and a password.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        let RedisUriParts { credentials, query, .. } = self.parts();
        [credentials, query].contains(&Some(MASK))
    }

    /// Returns the URI in the form in which it is shown.
    #[must_use]
    pub fn masked(&self) -> Self {
        Self(self.to_string().into())
    }

    /// Returns the URI of the store, which has no name in place of a database.
    #[must_use]
    pub fn store(&self) -> RedisUriParts<'_> {
        let parts = self.parts();
        let (address, path) = if self.has_label() { (parts.hosts, "") } else { (parts.address, parts.path) };
        RedisUriParts { address: address.trim_end_matches('/'), path: path.trim_end_matches('/'), ..parts }
    }

    /// Returns whether both URIs name the same hosts, the same database and the same label, as far
    /// as their texts show it.
    #[must_use]
    pub fn is_same_address(&self, other: &Self) -> bool {
        self.is_same_store(other) && self.label() == other.label()
    }

    /// Returns the name that stands in place of the number of a database, if one does.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.has_label().then(|| self.parts().path)
    }

    /// Returns whether both URIs name the same hosts and the same database, as far as their texts
    /// show it.
    #[must_use]
    pub fn is_same_store(&self, other: &Self) -> bool {
        let store = |uri: &Self| {
            let parts = uri.parts();
            let hosts = parts.hosts.to_lowercase();
            let mut hosts = RedisUriParts { hosts: &hosts, ..parts }.host_list().unwrap_or_default();
            hosts.sort();
            let is_number = parts.path.bytes().all(|byte| byte.is_ascii_digit());
            let database = match parts.path.trim_start_matches('0') {
                "" => "0",
                _ if uri.has_label() => "0",
                number if is_number => number,
                _ => parts.path,
            };
            (parts.scheme.replacen("rediss", "redis", 1), hosts, database.to_owned())
        };
        store(self) == store(other)
    }

    /// Returns whether a name stands in place of the number of a database.
    fn has_label(&self) -> bool {
        let parts = self.parts();
        ["redis", "rediss"].contains(&parts.scheme) && parts.path.contains(|char: char| !char.is_ascii_digit())
    }

    fn parts(&self) -> RedisUriParts<'_> {
        RedisUriParts::of(&self.0).expect("the URI has been parsed before")
    }
}

impl fmt::Display for PoolUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().fmt(f)
    }
}

impl fmt::Debug for PoolUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PoolUri({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(text: &str) -> PoolUri {
        text.parse().unwrap()
    }

    #[test]
    fn a_uri_is_shown_without_its_credentials() {
        let secret = uri("redis://me:hush@h:1/2");

        assert_eq!(secret.to_string(), "redis://***@h:1/2");
        assert_eq!(format!("{secret:?}"), "PoolUri(redis://***@h:1/2)");
        assert_eq!(secret.masked().reveal(), "redis://***@h:1/2");
        assert!(secret.has_credentials() && !secret.is_masked() && secret.masked().is_masked());
        assert_eq!(uri("redis://h").to_string(), "redis://h");
    }

    #[test]
    fn the_credentials_of_sentinels_are_not_shown() {
        for (text, shown) in [
            ("redis-sentinel://:p@h1:1,h2/m?sentinel_password=hush/", "redis-sentinel://***@h1:1,h2/m?***"),
            ("rediss-sentinel://h/m?sentinel_username=hush&sentinel_password=hush", "rediss-sentinel://h/m?***"),
        ] {
            let secret = uri(text);

            assert_eq!(secret.to_string(), shown);
            assert!(secret.has_credentials() && !secret.is_masked() && secret.masked().is_masked(), "{text}");
            assert!(secret.store().query.is_some_and(|query| text.ends_with(query)), "{text}");
        }
        let sentinel = "redis-sentinel://h/m";
        assert!(uri(sentinel).is_same_store(&uri(&format!("{sentinel}?sentinel_password=p"))));
        assert!(uri(sentinel).is_same_address(&uri(&format!("{sentinel}?sentinel_password=p"))));
    }

    #[test]
    fn only_addresses_of_redis_are_uris_of_pools() {
        for (text, expected) in [
            ("embedded:/data", InvalidPoolUri::Scheme),
            ("memory:", InvalidPoolUri::Scheme),
            ("mongodb://h", InvalidPoolUri::Scheme),
            ("redis://", InvalidPoolUri::Form),
            ("redis://u:p@/1", InvalidPoolUri::Form),
            ("redis://h?db=1", InvalidPoolUri::Form),
            ("redis-cluster://h?sentinel_password=p", InvalidPoolUri::Form),
            ("redis-sentinel://u:p?q@h/m", InvalidPoolUri::Form),
            ("redis-sentinel://h/m?sentinel_password=a?b", InvalidPoolUri::Form),
            ("redis-sentinel://h/m?sentinel_password=a@b", InvalidPoolUri::Form),
            ("redis://h 1", InvalidPoolUri::Form),
            ("redis://::1", InvalidPoolUri::Form),
            ("redis-cluster://[::1],h:p", InvalidPoolUri::Form),
            (&format!("redis://{}", "h".repeat(248)), InvalidPoolUri::Length),
        ] {
            assert_eq!(text.parse::<PoolUri>(), Err(expected), "{text}");
        }
        assert!(format!("redis://{}", "h".repeat(247)).parse::<PoolUri>().is_ok());
    }

    #[test]
    fn a_name_in_place_of_a_database_has_no_effect() {
        for (text, store) in [
            ("redis://u:p@h:1/3381af92-2b9e", "redis://***@h:1"),
            ("rediss://h/a", "rediss://h"),
            ("redis://h/3", "redis://h/3"),
            ("redis://h/", "redis://h"),
            ("redis-sentinel://h1,h2/main", "redis-sentinel://h1,h2/main"),
        ] {
            assert_eq!(uri(text).store().to_string(), store);
        }
        assert!(uri("redis://h/a").is_same_store(&uri("redis://u:p@H:6379/b")));
        assert!(!uri("redis://h/a").is_same_address(&uri("redis://h/b")));
        assert!(uri("redis://H:06379/a").is_same_address(&uri("rediss://u:p@h/a")));
    }

    #[test]
    fn uris_of_the_same_store_have_the_same_hosts_and_database() {
        for (one, other) in [
            ("redis://h", "rediss://h:6379/0"),
            ("redis://[::1]", "redis://[::1]:6379"),
            ("redis://h:06379/00", "redis://h"),
            ("redis://h:6379/01", "redis://h/1"),
            ("redis-cluster://[::1],[::2]:1,a", "redis-cluster://A:6379,[0::2]:1,[0:0::1]:6379"),
            ("redis-sentinel://[::1],[::2]/m", "redis-sentinel://[::2]:26379,[::1]:26379/m"),
            ("redis-cluster://a:1,b:2", "redis-cluster://u:p@b:2,a:1"),
            ("redis-sentinel://a/m", "redis-sentinel://a:26379/m"),
        ] {
            assert!(uri(one).is_same_store(&uri(other)), "{one} {other}");
        }
        for (one, other) in [
            ("redis://h", "redis://h/1"),
            ("redis://h", "redis://h:1"),
            ("redis://h", "redis-cluster://h"),
            ("redis-sentinel://a/m", "redis-sentinel://a/n"),
        ] {
            assert!(!uri(one).is_same_store(&uri(other)), "{one} {other}");
        }
    }
}
