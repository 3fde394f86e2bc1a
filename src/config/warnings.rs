//! Options that have no effect, or hardly one, because another one is missing. The service runs,
//! and logs them.

use super::{ClientCertificate, Config, Redis, SignedUrl, Transport};
use crate::auth::policy::{Overrides, Policy, Preset};
use sukkal_domain::{AuthStrategy, ClientIdRule};
use sukkal_storage::StoreUri;

impl Config {
    /// Returns a warning for each option that has no effect, or hardly one. `is_set` says whether
    /// somebody has set `tls.client_certificate`, `embedded.fsync`, and the minimum and maximum
    /// length of a Client-ID, which have defaults. `names_collector` says whether a variable of
    /// OpenTelemetry names a collector.
    #[expect(clippy::too_many_lines, reason = "it is a table of warnings")]
    pub(super) fn useless_options(&self, is_set: [bool; 4], names_collector: bool) -> impl Iterator<Item = String> {
        let [sets_client_certificate, sets_fsync, sets_min_length, sets_max_length] = is_set;
        let SignedUrl { secret_key, accepted_secret_key } = &self.signed_url;
        let Transport { message_encryption_key, message_decryption_keys, .. } = &self.transport;
        let authenticates_with = |strategy| self.auth.strategies.contains(&strategy);
        let has_jwt_options = !self.jwt.issuer.is_empty() || !self.jwt.jwks.is_empty() || !self.jwt.audience.is_empty();
        let has_roles = [AuthStrategy::Tokens, AuthStrategy::Jwt].into_iter().any(authenticates_with);
        let believes_anybody = self.auth.strategies.is_empty() || authenticates_with(AuthStrategy::None);
        let Redis { ca_file, certificate_file, key_file } = &self.redis;
        let has_redis_options = [ca_file, certificate_file, key_file].into_iter().any(Option::is_some);
        let cannot_sign = secret_key.reveal().is_none();
        let warnings = [
            (
                sets_client_certificate && self.tls.client_ca.is_none(),
                "tls.client_certificate has no effect without tls.client_ca: clients are not asked for certificates",
            ),
            (
                sets_fsync && !matches!(self.store, StoreUri::Embedded(_)),
                "embedded.fsync has no effect, because the store is not embedded",
            ),
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
                self.mail.host.is_empty()
                    && (self.mail.sender.is_some()
                        || !self.mail.username.is_empty()
                        || !self.mail.trusted_recipients.is_empty()),
                "the options in [mail] have no effect, because mail.host is empty",
            ),
            (
                believes_anybody && self.auth.strategies.len() > 1,
                "auth.strategies has \"none\" beside others, so a request without credentials may name any project and \
                 any roles; remove \"none\" once all clients have credentials",
            ),
            (
                has_jwt_options && !authenticates_with(AuthStrategy::Jwt),
                "the options in [jwt] have no effect without \"jwt\" in auth.strategies",
            ),
            (
                !self.keystone.auth_url.is_empty() && !authenticates_with(AuthStrategy::Keystone),
                "the options in [keystone] have no effect without \"keystone\" in auth.strategies",
            ),
            (
                self.transport.default_project.is_some() && !believes_anybody,
                "transport.default_project has no effect, because auth.strategies requires credentials",
            ),
            (
                self.transport.limits.default_message_delay > 0,
                "transport.default_message_delay is not 0, but it delays no messages: it is only the \
                 _default_message_delay that queues show; set _default_message_delay of the queues instead",
            ),
            (
                (sets_min_length || sets_max_length) && self.transport.client_id() == ClientIdRule::Uuid,
                "transport.min_length_client_id and transport.max_length_client_id have no effect, because \
                 transport.client_id_uuid_safe is \"strict\": a Client-ID must be a UUID",
            ),
            (
                names_collector && self.telemetry.otlp_endpoint.is_none(),
                "OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_TRACES_ENDPOINT have no effect; set \
                 telemetry.otlp_endpoint to send traces",
            ),
            (
                has_redis_options && !matches!(self.store, StoreUri::Redis(_)) && !self.pooling.enabled,
                "the options in [redis] have no effect, because the store is not Redis",
            ),
            (
                self.pooling.virtual_pool && !self.pooling.enabled,
                "pooling.virtual_pool has no effect, because pooling.enabled is false",
            ),
            (
                self.tls.client_ca.is_some()
                    && self.tls.client_certificate == ClientCertificate::Required
                    && self.operations.bind.is_none(),
                "tls.client_certificate is required, so health checks, which have no certificate, are refused; set \
                 operations.bind for them",
            ),
            (
                self.websocket.bind.is_some() && self.websocket.max_connections == 0,
                "websocket.bind has no effect, because websocket.max_connections is 0: every client gets a 503",
            ),
            (
                believes_anybody
                    && self.auth.strategies.len() <= 1
                    && self.policy == Policy::new(Preset::Roles, Overrides::default()),
                "policy.preset \"roles\" has no effect, because auth.strategies requires no credentials: clients name their \
                 roles themselves in X-Roles",
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
    fn a_section_without_its_strategy_causes_a_warning() {
        for (option, value, section, strategy) in [
            ("SUKKAL_JWT__AUDIENCE", "sukkal", "[jwt]", "jwt"),
            ("SUKKAL_KEYSTONE__AUTH_URL", "https://keystone.example.com/v3", "[keystone]", "keystone"),
        ] {
            let expected = format!("the options in {section} have no effect without \"{strategy}\" in auth.strategies");
            assert_eq!(warnings(&[(option, value)]), [expected]);
        }
    }

    #[test]
    fn a_default_project_beside_credentials_causes_a_warning() {
        let project = ("SUKKAL_TRANSPORT__DEFAULT_PROJECT", "p");
        let beside = |strategies: &str| {
            let preset = if strategies.contains("tokens") { "roles" } else { "zaqar" };
            let options = [project, ("SUKKAL_AUTH__STRATEGIES", strategies), ("SUKKAL_POLICY__PRESET", preset)];
            warnings(&options)
        };

        assert_eq!(
            beside("tokens"),
            ["transport.default_project has no effect, because auth.strategies requires credentials"]
        );
        assert_eq!(beside(""), [""; 0]);
        let without_credentials = beside("none,tokens");
        assert!(without_credentials.len() == 1 && without_credentials[0].contains("\"none\" beside others"));
    }

    #[test]
    fn an_option_that_only_seems_to_have_an_effect_causes_a_warning() {
        for (option, value, expected) in [
            ("SUKKAL_TRANSPORT__DEFAULT_MESSAGE_DELAY", "60", "transport.default_message_delay is not 0, but"),
            ("SUKKAL_TRANSPORT__MIN_LENGTH_CLIENT_ID", "5", "transport.min_length_client_id and transport.max"),
            ("SUKKAL_TRANSPORT__MAX_LENGTH_CLIENT_ID", "50", "transport.min_length_client_id and transport.max"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_ENDPOINT and"),
        ] {
            let alone = warnings(&[(option, value)]);
            assert!(alone.len() == 1 && alone[0].starts_with(expected), "{alone:?}");
        }
        let free = ("SUKKAL_TRANSPORT__CLIENT_ID_UUID_SAFE", "off");
        assert_eq!(warnings(&[free, ("SUKKAL_TRANSPORT__MIN_LENGTH_CLIENT_ID", "5")]), [""; 0]);
        let collector = "http://127.0.0.1:4318";
        let named = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector), ("SUKKAL_TELEMETRY__OTLP_ENDPOINT", collector)];
        assert_eq!(warnings(&named), [""; 0]);
    }

    #[test]
    fn an_option_of_another_store_causes_a_warning() {
        let fsync = ("SUKKAL_EMBEDDED__FSYNC", "interval");

        let expected = "embedded.fsync has no effect, because the store is not embedded";
        assert_eq!(warnings(&[fsync, ("SUKKAL_STORE", "memory:")]), [expected]);
        assert_eq!(warnings(&[fsync]), [""; 0]);
    }

    #[test]
    fn the_filter_of_other_programs_causes_a_warning() {
        assert_eq!(warnings(&[("RUST_LOG", "debug")]), ["RUST_LOG has no effect; set log.filter instead"]);
    }

    #[test]
    fn rules_and_a_listener_without_an_effect_cause_a_warning() {
        let roles = [("SUKKAL_POLICY__PRESET", "roles")];
        let sockets = [("SUKKAL_WEBSOCKET__BIND", "127.0.0.1:0"), ("SUKKAL_WEBSOCKET__MAX_CONNECTIONS", "0")];

        let useless = warnings(&roles);
        assert!(useless.len() == 1 && useless[0].starts_with("policy.preset \"roles\" has no effect"), "{useless:?}");
        assert_eq!(warnings(&[roles[0], ("SUKKAL_AUTH__STRATEGIES", "tokens")]), [""; 0]);
        let useless = warnings(&sockets);
        assert!(useless.len() == 1 && useless[0].starts_with("websocket.bind has no effect"), "{useless:?}");
        assert_eq!(warnings(&sockets[..1]), [""; 0]);
    }

    #[test]
    fn client_certificates_that_nobody_asks_for_cause_a_warning() {
        let client_certificate = ("SUKKAL_TLS__CLIENT_CERTIFICATE", "required");
        let with_ca = ["CERTIFICATE", "KEY", "CLIENT_CA"].map(|file| format!("SUKKAL_TLS__{file}"));
        let with_ca: Vec<_> =
            with_ca.iter().map(|name| (name.as_str(), "file.pem")).chain([client_certificate]).collect();

        let alone = warnings(&[client_certificate]);
        assert!(alone.len() == 1 && alone[0].starts_with("tls.client_certificate has no effect without tls.client_ca"));
        let health_checks = warnings(&with_ca);
        assert!(health_checks.len() == 1 && health_checks[0].ends_with("set operations.bind for them"));
        let with_listener = [&with_ca[..], &[("SUKKAL_OPERATIONS__BIND", "127.0.0.1:8889")]].concat();
        assert_eq!(warnings(&with_listener), [""; 0]);
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
                "SUKKAL_REDIS__CA_FILE",
                "ca.pem",
                "SUKKAL_STORE",
                "the options in [redis] have no effect, because the store is not Redis",
            ),
            ("SUKKAL_POOLING__VIRTUAL_POOL", "true", "SUKKAL_POOLING__ENABLED", "pooling.virtual_pool has no effect"),
            (
                "SUKKAL_AUTH__STRATEGIES",
                "tokens",
                "SUKKAL_POLICY__PRESET",
                "auth.strategies has \"tokens\" or \"jwt\", but policy.preset is \"zaqar\"",
            ),
        ] {
            let alone = warnings(&[(option, value)]);

            assert!(alone.len() == 1 && alone[0].starts_with(warning), "{alone:?}");
            let wanted = match needed {
                "SUKKAL_POLICY__PRESET" => "roles",
                "SUKKAL_POOLING__ENABLED" => "true",
                "SUKKAL_STORE" => "rediss://127.0.0.1",
                _ => KEY,
            };
            assert_eq!(warnings(&[(option, value), (needed, wanted)]), [""; 0]);
        }
    }
}
