//! Store URIs: `redis://`, `rediss://`, `redis-cluster://h1:p,h2:p`, `redis-sentinel://h1:p,h2:p/MASTER`.

use std::fmt;
use std::str::FromStr;

use fred::types::config::Config;

/// The address of a Redis server, cluster or Sentinel group. Shown without its password.
#[derive(Clone, Debug)]
pub struct RedisUri {
    config: Config,
    shown: String,
}

/// Why a text is no address of a Redis.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{shown:?} is no Redis address: {reason}")]
pub struct InvalidUri {
    shown: String,
    reason: String,
}

impl RedisUri {
    pub(super) fn config(&self) -> Config {
        self.config.clone()
    }
}

impl fmt::Display for RedisUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl FromStr for RedisUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let shown = without_password(text);
        let invalid = |reason: String| InvalidUri { shown: shown.clone(), reason };
        let url = as_fred_url(text).map_err(|reason| invalid(reason.to_owned()))?;
        let mut config = Config::from_url(&url).map_err(|error| invalid(error.to_string()))?;
        // A store that is not there at the start is waited for, like one that goes later.
        config.fail_fast = false;
        Ok(Self { config, shown })
    }
}

/// `fred` takes further hosts and the Sentinel's master as query parameters.
fn as_fred_url(text: &str) -> Result<String, &'static str> {
    let (scheme, rest) = text.split_once("://").ok_or("it has no scheme")?;
    if rest.rsplit('@').next().is_some_and(|hosts| hosts.contains('?')) {
        return Err("it takes no query");
    }
    let (credentials, rest) = match rest.rsplit_once('@') {
        Some((credentials, rest)) => (format!("{credentials}@"), rest),
        None => (String::new(), rest),
    };
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut hosts = hosts.split(',');
    let first = hosts.next().filter(|host| !host.is_empty()).ok_or("it has no host")?;
    let mut query: Vec<String> = hosts.map(|host| format!("node={host}")).collect();
    match scheme {
        "redis" | "rediss" if query.is_empty() => return Ok(text.to_owned()),
        "redis" | "rediss" => return Err("several hosts are a redis-cluster:// or redis-sentinel://"),
        "redis-cluster" | "rediss-cluster" => {}
        "redis-sentinel" | "rediss-sentinel" if path.is_empty() => {
            return Err("the master's name is missing after the hosts");
        }
        "redis-sentinel" | "rediss-sentinel" => query.push(format!("sentinelServiceName={path}")),
        _ => return Err("its scheme is none of redis, rediss, redis-cluster, redis-sentinel"),
    }
    Ok(format!("{scheme}://{credentials}{first}?{}", query.join("&")))
}

fn without_password(text: &str) -> String {
    let text = text.split('?').next().unwrap_or_default();
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 < at => format!("{}***{}", &text[..scheme + 3], &text[at..]),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_hosts_become_nodes() {
        for (text, url) in [
            ("redis://h:6379/3", "redis://h:6379/3"),
            ("redis-cluster://u:p@h1:1,h2:2,h3:3", "redis-cluster://u:p@h1:1?node=h2:2&node=h3:3"),
            ("redis-sentinel://h1:1,h2:2/main", "redis-sentinel://h1:1?node=h2:2&sentinelServiceName=main"),
        ] {
            assert_eq!(as_fred_url(text).as_deref(), Ok(url));
            assert!(text.parse::<RedisUri>().is_ok(), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_the_password() {
        for text in
            ["", "redis", "redis://", "http://u:secret@h", "redis://u:secret@h1:1,h2:2", "redis-sentinel://h1:1"]
        {
            let error = text.parse::<RedisUri>().unwrap_err().to_string();

            assert!(!error.contains("secret"), "{error}");
        }
    }
}
