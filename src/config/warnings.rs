//! Options that have no effect, or hardly one, because another one is missing. The service runs, and
//! logs them.

use super::{Config, SignedUrl, Transport};
use crate::auth::policy::Policy;
use crate::domain::AuthStrategy;

impl Config {
    /// Returns a warning for each option that has no effect, or hardly one.
    pub(super) fn useless_options(&self) -> impl Iterator<Item = String> {
        let SignedUrl { secret_key, accepted_secret_key } = &self.signed_url;
        let Transport { message_encryption_key, message_decryption_keys, .. } = &self.transport;
        let has_roles = [AuthStrategy::Tokens, AuthStrategy::Jwt].iter().any(|one| self.auth.strategies.contains(one));
        let cannot_sign = secret_key.reveal().is_none();
        let warnings = [
            (
                self.push.require_confirmation && cannot_sign,
                "push.require_confirmation is true, but signed_url.secret_key is empty: requests to confirm cannot be \
                 signed, so confirmations are not required",
            ),
            (
                accepted_secret_key.reveal().is_some() && cannot_sign,
                "signed_url.accepted_secret_key has no effect, because signed_url.secret_key is empty",
            ),
            (
                !message_decryption_keys.is_empty() && message_encryption_key.reveal().is_none(),
                "transport.message_decryption_keys has no effect, because transport.message_encryption_key is empty",
            ),
            (
                self.mail.host.is_empty() && (self.mail.sender.is_some() || !self.mail.username.is_empty()),
                "the options in [mail] have no effect, because mail.host is empty",
            ),
            (
                has_roles && self.policy == Policy::default(),
                "auth.strategies has \"tokens\" or \"jwt\", but policy.preset is \"zaqar\", in which roles hardly restrict \
                 clients; with policy.preset = \"roles\", each role may do what it is for",
            ),
        ];
        warnings.into_iter().filter(|(is_useless, _)| *is_useless).map(|(_, warning)| warning.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "a key that is long enough for any purpose";

    fn warnings(environment: &[(&str, &str)]) -> Vec<String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::load(None, environment, &[]).unwrap().warnings
    }

    #[test]
    fn an_option_that_needs_another_one_causes_a_warning_without_it() {
        for (option, value, needed, warning) in [
            (
                "SUKKAL_PUSH__REQUIRE_CONFIRMATION",
                "true",
                "SUKKAL_SIGNED_URL__SECRET_KEY",
                "push.require_confirmation is true, but signed_url.secret_key is empty",
            ),
            (
                "SUKKAL_SIGNED_URL__ACCEPTED_SECRET_KEY",
                KEY,
                "SUKKAL_SIGNED_URL__SECRET_KEY",
                "signed_url.accepted_secret_key has no effect",
            ),
            (
                "SUKKAL_TRANSPORT__MESSAGE_DECRYPTION_KEYS",
                KEY,
                "SUKKAL_TRANSPORT__MESSAGE_ENCRYPTION_KEY",
                "transport.message_decryption_keys has no effect",
            ),
            (
                "SUKKAL_AUTH__STRATEGIES",
                "tokens",
                "SUKKAL_POLICY__PRESET",
                "auth.strategies has \"tokens\" or \"jwt\", but policy.preset is \"zaqar\"",
            ),
        ] {
            let alone = warnings(&[(option, value)]);

            assert!(alone.len() == 1 && alone[0].starts_with(warning), "{alone:?}");
            assert_eq!(
                warnings(&[(option, value), (needed, if needed.ends_with("KEY") { KEY } else { "roles" })]),
                [""; 0]
            );
        }
    }
}
