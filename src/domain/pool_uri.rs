//! The URI of a pool: `redis://`, `rediss://`, `redis-cluster://` or `redis-sentinel://`, as for a
//! store. After the address of a single server, a name may stand in place of the number of a
//! database. It only tells pools apart: their queues are in database 0. After the name of a master, a
//! query may have the credentials of the Sentinels.

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
/// The port of Redis if a URI names none.
pub const PORT: u16 = 6_379;
/// The port of a Sentinel if a URI names none.
pub const SENTINEL_PORT: u16 = 26_379;

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

/// The parts of a URI.
struct Parts<'u> {
    scheme: &'u str,
    credentials: Option<&'u str>,
    hosts: &'u str,
    path: &'u str,
    query: Option<&'u str>,
}

impl FromStr for PoolUri {
    type Err = InvalidPoolUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let uri = Self(text.to_owned().into());
        if !text.split_once("://").is_some_and(|(scheme, _)| SCHEMES.contains(&scheme)) {
            return Err(InvalidPoolUri::Scheme);
        }
        if text.chars().count() > POOL_URI_CHARS_MAX {
            return Err(InvalidPoolUri::Length);
        }
        let Parts { scheme, hosts, query, .. } = uri.parts();
        let question_marks = usize::from(query.is_some() && scheme.ends_with("-sentinel"));
        let is_refused = |char: char| char.is_whitespace() || char.is_control() || char == '#';
        let has_hosts = HostAndPort::parse_list(hosts, PORT).is_some();
        if text.contains(is_refused) || text.matches('?').count() != question_marks || !has_hosts {
            return Err(InvalidPoolUri::Form);
        }
        Ok(uri)
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
        let Parts { credentials, query, .. } = self.parts();
        credentials.is_some() || query.is_some()
    }

    /// Returns whether the URI has the mask of shown URIs in place of a user and a password.
    #[must_use]
    pub fn is_masked(&self) -> bool {
        let Parts { credentials, query, .. } = self.parts();
        [credentials, query].contains(&Some(MASK))
    }

    /// Returns the URI in the form in which it is shown.
    #[must_use]
    pub fn masked(&self) -> Self {
        Self(self.to_string().into())
    }

    /// Returns the URI of the store, which has no name in place of a database.
    #[must_use]
    pub fn store_uri(&self) -> Zeroizing<String> {
        let Parts { path, query, .. } = self.parts();
        let text = if self.has_label() { self.0.strip_suffix(path).unwrap_or(&self.0) } else { &self.0 };
        let text = if query.is_none() { text.trim_end_matches('/') } else { text };
        text.to_owned().into()
    }

    /// Returns whether both URIs name the same hosts, the same database and the same label, as far as
    /// their texts show it.
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
            let Parts { scheme, hosts, path, .. } = uri.parts();
            let default = if scheme.ends_with("-sentinel") { SENTINEL_PORT } else { PORT };
            let mut hosts = HostAndPort::parse_list(&hosts.to_lowercase(), default).unwrap_or_default();
            hosts.sort();
            let is_number = path.bytes().all(|byte| byte.is_ascii_digit());
            let database = match path.trim_start_matches('0') {
                "" => "0",
                _ if uri.has_label() => "0",
                number if is_number => number,
                _ => path,
            };
            (scheme.replacen("rediss", "redis", 1), hosts, database.to_owned())
        };
        store(self) == store(other)
    }

    /// Returns whether a name stands in place of the number of a database.
    fn has_label(&self) -> bool {
        let Parts { scheme, path, .. } = self.parts();
        ["redis", "rediss"].contains(&scheme) && path.contains(|char: char| !char.is_ascii_digit())
    }

    fn parts(&self) -> Parts<'_> {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("", &self.0));
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((credentials, rest)) => (Some(credentials), rest),
            None => (None, rest),
        };
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        Parts { scheme, credentials, hosts, path, query }
    }
}

impl fmt::Display for PoolUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts { scheme, credentials, query, .. } = self.parts();
        let address = match credentials {
            Some(_) => self.0.rsplit_once('@').unwrap_or_default().1,
            None => self.0.split_once("://").unwrap_or_default().1,
        };
        let address = address.split('?').next().unwrap_or_default();
        let user = if credentials.is_some() { format!("{MASK}@") } else { String::new() };
        let query = if query.is_some() { format!("?{MASK}") } else { String::new() };
        write!(f, "{scheme}://{user}{address}{query}")
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
            assert_eq!(*secret.store_uri(), text);
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
            ("redis://u:p@h:1/3381af92-2b9e", "redis://u:p@h:1"),
            ("rediss://h/a", "rediss://h"),
            ("redis://h/3", "redis://h/3"),
            ("redis://h/", "redis://h"),
            ("redis-sentinel://h1,h2/main", "redis-sentinel://h1,h2/main"),
        ] {
            assert_eq!(*uri(text).store_uri(), store);
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
