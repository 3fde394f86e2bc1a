//! `[auth]`: authentication of callers.

use serde::Deserialize;

use super::{Error, Tls};
use sukkal_domain::AuthStrategy;
use sukkal_domain::options::{Rule, options};
use sukkal_domain::trusted_proxy::TrustedProxy;

const STRATEGIES: Rule = Rule::SomeOf("a list of strategies, of which there are", &AuthStrategy::NAMES);
const PROXIES: Rule = Rule::list_of::<TrustedProxy>(
    "a list of IP networks and addresses such as \"10.0.0.0/8\", without bits after the prefix, and of client \
     certificates such as \"certificate:CN=proxy\"",
);

options! {
    /// The options for the authentication of callers.
    #[derive(Clone, Debug, Deserialize, PartialEq)]
    pub struct Auth {
        /// How Sukkal finds out who sends a request. Accepted: a list of these strategies. In the
        /// environment, they are separated by commas.
        ///   "none"      everybody is believed: X-Project-ID names the project, and X-Roles the roles
        ///   "proxy"     these headers and X-User-Id are believed if they come from one of the
        ///               trusted_proxies, which authenticate callers; if no other strategy is on, all
        ///               other requests get 401
        ///   "keystone"  the token in X-Auth-Token is believed if Keystone accepts it; see [keystone]
        ///   "jwt"       the token in Authorization: Bearer is believed if an OpenID provider has signed it;
        ///               see [jwt]
        ///   "tokens"    clients present a token that Sukkal has issued; see [tokens]
        /// Requests with a pre-signed URL need none of them. The default is []: if the address in
        /// `bind` is a loopback address, everybody on this machine is believed. Sukkal then refuses
        /// requests whose header `Host` is not localhost, an IP address, a name in `bind` of a
        /// listener or a host in cors_origins, because they can come from a web page (DNS
        /// rebinding). On other addresses, Sukkal does not start without strategies. Name "proxy"
        /// or "none" if a proxy on this machine passes on the `Host` of its clients.
        pub strategies: Vec<AuthStrategy> = [] in STRATEGIES,
        /// The proxies that authenticate callers, for the strategy "proxy": those in a network, and
        /// those with a client certificate of an authority in tls.client_ca. The address of the
        /// connection counts, and the whole subject of the certificate, as in RFC 4514. Everybody
        /// who can connect from these networks or with these certificates can act as any caller.
        /// Accepted: a list of networks, addresses and subjects, such as ["10.0.0.7", "fd00::/64",
        /// "certificate:CN=proxy,O=Acme"]. In the environment, they are separated by commas, so a
        /// subject with a comma must be in the file. The default is [].
        pub trusted_proxies: Vec<TrustedProxy> = [] in PROXIES;
    }
}

impl Auth {
    /// Checks that the strategies and the proxies belong together. Returns a warning if one of the
    /// options has no effect.
    pub(super) fn check(&self, tls: &Tls) -> Result<Option<String>, Error> {
        let has_certificate = self.trusted_proxies.iter().any(|proxy| matches!(proxy, TrustedProxy::Certificate(_)));
        if has_certificate && tls.client_ca.is_none() {
            let reason = "auth.trusted_proxies names a client certificate, but tls.client_ca is empty, so no client has \
                          one; set tls.client_ca";
            return Err(Error::Invalid(reason.to_owned()));
        }
        match (self.strategies.contains(&AuthStrategy::Proxy), self.trusted_proxies.is_empty()) {
            (true, true) => {
                let reason = "auth.strategies has \"proxy\", but auth.trusted_proxies is empty; it must have the addresses \
                              or networks of the proxies that authenticate callers, for example trusted_proxies = \
                              [\"10.0.0.1\"]";
                Err(Error::Invalid(reason.to_owned()))
            }
            (false, false) => {
                Ok(Some("auth.trusted_proxies has no effect without \"proxy\" in auth.strategies".to_owned()))
            }
            _ if self.trusted_proxies.iter().any(TrustedProxy::is_anybody) => Ok(Some(
                "auth.trusted_proxies has a network of all addresses, so everybody may name any project and any roles"
                    .to_owned(),
            )),
            _ => Ok(None),
        }
    }
}
