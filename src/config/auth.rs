//! `[auth]`: authentication of callers.

use serde::Deserialize;

use super::{Error, Tls};
use crate::domain::AuthStrategy;
use crate::domain::trusted_proxy::TrustedProxy;

/// The options for the authentication of callers.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct Auth {
    /// The strategies that find out who sends a request. Without any, everybody on this machine is
    /// believed.
    pub strategies: Vec<AuthStrategy>,
    /// The proxies that authenticate callers.
    pub trusted_proxies: Vec<TrustedProxy>,
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
            _ => Ok(None),
        }
    }
}
