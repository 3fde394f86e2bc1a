//! Warns about servers that decide who callers are or that get a password, and that are reached
//! without TLS. Everybody on the way to them could act as any caller, or learn the password.

use std::borrow::Cow;

use url::{Host, Url};

use super::Config;
use sukkal_domain::{AuthStrategy, MailEncryption};

/// Returns a warning for each such server of a strategy that is on, unless it is on this machine.
pub(super) fn warnings(config: &Config) -> impl Iterator<Item = String> {
    let keys = match config.jwt.jwks.as_str() {
        "" => ("jwt.issuer", config.jwt.issuer.as_str()),
        jwks => ("jwt.jwks", jwks),
    };
    let servers =
        [(AuthStrategy::Jwt, keys), (AuthStrategy::Keystone, ("keystone.auth_url", &config.keystone.auth_url))];
    let unsafe_servers = servers
        .into_iter()
        .filter(|(strategy, (_, url))| config.auth.strategies.contains(strategy) && is_unencrypted(url));
    let unsafe_servers = unsafe_servers.map(|(_, (option, url))| {
        // The query may contain a key.
        let url = url.split('?').next().unwrap_or_default();
        format!(
            "{option} is {url}, which is not encrypted: everybody between Sukkal and this server can act as any \
             caller, so use https"
        )
    });
    let mail = &config.mail;
    let tells_password = mail.encryption == MailEncryption::None
        && !mail.username.is_empty()
        && is_unencrypted(&format!("http://{}", bracketed(&mail.host)));
    let of_mail = tells_password.then(|| {
        "mail.encryption is \"none\": everybody between Sukkal and the mail server can read the password, so use \
         \"starttls\" or \"tls\""
            .to_owned()
    });
    unsafe_servers.chain(of_mail)
}

/// Returns a host as URLs have it.
fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{host}]").into() } else { host.into() }
}

/// Returns whether the text is the URL of a server on another machine that is reached without TLS.
fn is_unencrypted(text: &str) -> bool {
    let Ok(url) = Url::parse(text) else { return false };
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => true,
    };
    url.scheme() == "http" && !is_local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_tls_is_safe_on_this_machine_only() {
        for url in
            ["http://keystone:5000/v3", "HTTP://10.0.0.1", "http://localhost.example.com", "http://[fd00::1]:80/"]
        {
            assert!(is_unencrypted(url), "{url}");
        }
        for url in
            ["", "https://keystone", "/etc/keys", "my issuer", "http://127.0.0.2:1", "http://[::1]", "http://localhost"]
        {
            assert!(!is_unencrypted(url), "{url}");
        }
    }

    #[test]
    fn only_servers_of_strategies_that_are_on_cause_warnings() {
        let warnings = |strategies: &str, options: &[(&str, &str)]| {
            let preset = if strategies == "none" { "zaqar" } else { "roles" };
            let strategies = [("SUKKAL_AUTH__STRATEGIES", strategies), ("SUKKAL_POLICY__PRESET", preset)];
            let environment = strategies.iter().chain(options).map(|(name, value)| ((*name).into(), (*value).into()));
            let warnings = Config::load(None, environment.collect::<Vec<(String, String)>>(), &[]).unwrap().warnings;
            // Other options of a strategy that is off cause a warning too.
            warnings.into_iter().filter(|warning| !warning.contains("have no effect")).collect::<Vec<_>>()
        };
        let (issuer, jwks) = (("SUKKAL_JWT__ISSUER", "http://idp"), ("SUKKAL_JWT__JWKS", "http://keys?key=hush"));
        let keystone = ("SUKKAL_KEYSTONE__AUTH_URL", "http://keystone");

        let both = warnings("jwt,keystone", &[issuer, keystone]);
        assert!(both[0].starts_with("jwt.issuer is http://idp, which is not encrypted"), "{both:?}");
        assert!(both[1].starts_with("keystone.auth_url is http://keystone, which is not encrypted"), "{both:?}");
        let of_keys = warnings("jwt", &[issuer, jwks, keystone]);
        assert!(of_keys.len() == 1 && of_keys[0].starts_with("jwt.jwks is http://keys, "), "{of_keys:?}");
        assert_eq!(warnings("jwt", &[issuer, ("SUKKAL_JWT__JWKS", "/etc/keys")]), [""; 0]);
        assert_eq!(warnings("none", &[issuer, keystone]), [""; 0]);
    }
}
