//! Creates the service over a store: its broker, its strategies of authentication, and its push.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;
use zeroize::Zeroizing;

use super::error::Error;
use super::store::{cipher, clock, redis_tls_files};
use crate::api::{self, Service, Settings, WebSocketLimits};
use crate::auth::signed_url::Signer;
use crate::authentication::jwt::Jwt;
use crate::authentication::keystone::Keystone;
use crate::authentication::{Authenticator, Openness, Tokens, TrustedProxies};
use crate::broker::pooling::Pooling;
use crate::broker::{self, Broker};
use crate::config::{Auth, Config};
use crate::observability::audit::AuditLog;
use crate::observability::metrics::Metrics;
use crate::observability::telemetry::Tracer;
use crate::push::client::Resolver;
use crate::push::{self, Push};
use crate::wire::checksum::Checksums;
use sukkal_base::text;
use sukkal_domain::mailto::MAILTO;
use sukkal_domain::{AuthStrategy, MailConfig, PushConfig, Secret, Token};
use sukkal_storage::redis::RedisPools;
use sukkal_storage::{Driver, StoreUri};

/// Creates the service over a store, as configured.
pub fn service(config: &Config, store: Arc<dyn Driver>) -> Result<Service, Error> {
    let metrics = Arc::new(Metrics::new());
    let limits = config.transport.limits.clone();
    let options = broker::Options {
        policy: config.policy.clone(),
        monitored_queues: config.metrics.queues.clone(),
        quotas: config.quotas.with(&limits),
        pooling: pooling(config),
        socket_requests_max: Some(config.websocket.max_requests_per_project),
        mail: config.mail.rules(),
    };
    let broker = Broker::with_options(store, limits, push_config(config), cipher(config), metrics.clone(), options);
    let settings = Settings {
        admin_mode: config.admin_mode,
        pooling: config.pooling.enabled,
        authenticator: Arc::new(authenticator(config, &broker)?),
        client_id: config.transport.client_id(),
        client_id_is_optional: config.transport.client_id_is_optional(),
        default_project: config.transport.default_project.clone(),
        cors_origins: config.transport.cors_origins.clone(),
        public_path: config.transport.public_path.clone(),
        bound_names: bound_names(config),
        client_timeout: Duration::from_secs(config.client_timeout_s),
        signer: signer(config),
        checksums: if config.enable_checksum { Checksums::Shown } else { Checksums::Hidden },
        console: config.console.enabled,
        websocket: WebSocketLimits {
            ping_interval: Duration::from_secs(config.websocket.ping_interval_s),
            idle_timeout: Duration::from_secs(config.websocket.idle_timeout_s),
            connections_max: config.websocket.max_connections,
            echoes: false,
        },
        stream_heartbeat: Duration::from_secs(config.transport.limits.stream_heartbeat.into()),
        audit: audit_log(config, &metrics)?,
    };
    Ok(api::service(broker, settings, metrics, tracer(config)))
}

/// Returns how pools are managed, if the operator wants them.
fn pooling(config: &Config) -> Option<Pooling> {
    let management_store = match &config.store {
        StoreUri::Redis(uri) => uri.to_string().parse().ok(),
        StoreUri::Embedded(_) | StoreUri::Memory => None,
    };
    let connector = Arc::new(RedisPools::new(redis_tls_files(&config.redis), clock(config)));
    config.pooling.enabled.then_some(Pooling { connector, management_store })
}

/// Returns the names and addresses on which the listeners listen.
fn bound_names(config: &Config) -> Vec<String> {
    let others = [&config.operations.bind, &config.websocket.bind].into_iter().flatten();
    [&config.bind].into_iter().chain(others).filter_map(|bind| bind.host.clone()).collect()
}

/// Opens the audit log, if the operator wants one.
fn audit_log(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<AuditLog>, Error> {
    let Some(file) = &config.audit.file else { return Ok(None) };
    let unusable = |error| Error::AuditLog(format!("{file}: {error}"));
    AuditLog::open(file, metrics.clone()).map(Some).map_err(unusable)
}

/// Creates the strategies that the operator has chosen. By default, everybody on this machine is
/// believed.
fn authenticator(config: &Config, broker: &Broker) -> Result<Authenticator, Error> {
    let Auth { strategies, trusted_proxies } = &config.auth;
    let mut chosen = Authenticator::default();
    if strategies.is_empty() {
        chosen.none = Some(Openness::ThisMachine);
    }
    for strategy in strategies {
        match strategy {
            AuthStrategy::None => chosen.none = Some(Openness::Everybody),
            AuthStrategy::Proxy => chosen.proxies = Some(TrustedProxies::new(trusted_proxies)),
            AuthStrategy::Keystone => {
                let keystone = Keystone::new(config.keystone.clone()).map_err(Error::Authentication)?;
                let uri = keystone.public_uri().to_owned();
                broker.set_trusts(Arc::new(keystone.trusts()));
                chosen.keystone = Some((Box::new(keystone), uri));
            }
            AuthStrategy::Jwt => {
                chosen.jwt = Some(Box::new(Jwt::new(config.jwt.clone()).map_err(Error::Authentication)?));
            }
            AuthStrategy::Tokens => {
                chosen.api_keys = Some(Box::new(Tokens::new(broker.clone(), admin_token(config)?.as_ref())));
            }
        }
    }
    Ok(chosen)
}

/// Returns the token that the operator has configured for the admin.
fn admin_token(config: &Config) -> Result<Option<Token>, Error> {
    let text = match (config.tokens.admin_token.reveal(), &config.tokens.admin_token_file) {
        (Some(token), _) => Zeroizing::new(token.to_owned()),
        (None, Some(file)) => {
            let unreadable = |error| Error::AdminToken(format!("cannot read {file}: {error}"));
            text::read(file).map_err(unreadable)?
        }
        (None, None) => return Ok(None),
    };
    let invalid = || Error::AdminToken("it does not have a token that `sukkal token generate` has printed".to_owned());
    Token::parse(text.trim()).map(Some).ok_or_else(invalid)
}

/// Returns the signer of URLs, if there is a key.
fn signer(config: &Config) -> Option<Signer> {
    let keys = &config.signed_url;
    Some(Signer::new(&keys.secret_key)?.accepting(&keys.accepted_secret_key))
}

/// Starts to deliver messages to subscribers, whose names this resolver resolves.
pub fn push(config: &Config, service: &Service, resolver: Arc<dyn Resolver>) -> Result<Push, Error> {
    let (push, mail) = (push_config(config), mail_config(config)?);
    let options = push::Options { config: push, mail, resolver, signer: signer(config) };
    Ok(Push::start(service.broker.clone(), service.metrics.clone(), options)?)
}

/// Returns the options of push. Confirmations are not required if they cannot be signed. Mail
/// addresses can be subscribed if there is a mail server.
pub(super) fn push_config(config: &Config) -> PushConfig {
    let addresses = config.push.addresses.clone();
    PushConfig {
        require_confirmation: config.push.require_confirmation && signer(config).is_some(),
        addresses: if config.mail.rules().is_some() { addresses.with_scheme(MAILTO) } else { addresses },
        ..config.push.clone()
    }
}

/// Returns the options of mail, with the password from its file.
fn mail_config(config: &Config) -> Result<MailConfig, Error> {
    let (mut mail, file) = (config.mail.clone(), &config.mail.password_file);
    if file.is_empty() || mail.rules().is_none() {
        return Ok(mail);
    }
    let text = text::read(file).map_err(|error| Error::MailPassword(format!("cannot read {file}: {error}")))?;
    mail.password = Secret::new(text.trim());
    Ok(mail)
}

/// Starts to send traces if the operator has named a collector.
fn tracer(config: &Config) -> Option<Tracer> {
    let endpoint = config.telemetry.otlp_endpoint.as_deref()?;
    Tracer::start(endpoint).inspect_err(|error| warn!(%error, "cannot send traces")).ok()
}
