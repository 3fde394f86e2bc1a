//! The current keys of the issuer, and how they rotate: they are fetched again when they are old,
//! and when a token names a key that is not known. Keys stay in use while they cannot be fetched.

use std::fs::File;
use std::io::Read;
use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use serde::Deserialize;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::key_set::{Document, KeySet, Verdict};
use super::token::Token;
use crate::auth::AuthenticationError;
use crate::authentication::outage::Outage;
use crate::broker::cached::Cached;
use sukkal_base::outbound::json_client::{ANSWER_DURATION_MAX, FetchFailure, JsonClient};
use sukkal_base::text;

/// Age at which keys are fetched again, so that removed keys are not accepted for long.
const REFRESH_AGE: Duration = Duration::from_secs(300);
/// Minimum time between two fetches. Clients can cause a fetch by naming a key that does not exist.
const FETCH_PAUSE: Duration = Duration::from_secs(60);
/// Minimum time between two fetches while there are no keys.
const FIRST_FETCH_PAUSE: Duration = Duration::from_secs(5);
/// Maximum size of a file with keys, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The path of an issuer's configuration, below its URL.
const CONFIGURATION_PATH: &str = "/.well-known/openid-configuration";

/// The source of the keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The URL of the issuer, whose configuration names the URL of the keys.
    Issuer(String),
    Url(String),
    File(PathBuf),
}

/// The keys of the issuer.
pub(super) struct Keys {
    shared: Arc<SharedKeys>,
    first: Cached<Result<(), String>>,
    again: Cached<Result<(), String>>,
}

struct SharedKeys {
    source: Source,
    client: JsonClient,
    current: RwLock<Current>,
    outage: Outage,
}

#[derive(Clone)]
struct Current {
    keys: Arc<KeySet>,
    /// The number of changes of the keys; 0 before the first fetch.
    version: u64,
    /// The keys before the last change.
    previous: Arc<KeySet>,
    /// When the keys were fetched; before the first fetch, when the service started.
    fetched_at: Instant,
}

/// The configuration of an issuer.
#[derive(Deserialize)]
struct IssuerConfiguration {
    issuer: String,
    jwks_uri: String,
}

impl Keys {
    /// Reads a file at once, and returns why it cannot be used. Fetches keys from a URL in the
    /// background.
    pub(super) fn new(source: Source) -> Result<Arc<Self>, String> {
        let name = match &source {
            // The query may contain a key, and the name is for the log.
            Source::Issuer(url) | Source::Url(url) => url.split('?').next().unwrap_or_default().to_owned(),
            Source::File(path) => path.display().to_string(),
        };
        let (keys, previous) = (Arc::default(), Arc::default());
        let current = Current { keys, version: 0, previous, fetched_at: Instant::now() };
        let (client, current) = (JsonClient::default(), RwLock::new(current));
        let shared = Arc::new(SharedKeys { source, client, current, outage: Outage::new(name) });
        let keys = Arc::new(Self { shared, first: Cached::new(FIRST_FETCH_PAUSE), again: Cached::new(FETCH_PAUSE) });
        match &keys.shared.source {
            Source::File(path) => keys.shared.replace(read(path)?),
            Source::Issuer(_) | Source::Url(_) => {
                let this = keys.clone();
                tokio::spawn(async move { this.fetch(ANSWER_DURATION_MAX).await });
            }
        }
        Ok(keys)
    }

    /// Returns the number of changes of the keys. A signature that an older version has verified
    /// must be verified again.
    pub(super) fn version(&self) -> u64 {
        self.shared.current().version
    }

    /// Begins to fetch the keys if they are old, and does not wait for them.
    pub(super) async fn refresh_if_old(&self) {
        if self.shared.read(|current| current.fetched_at.elapsed() >= REFRESH_AGE) {
            let _in_background = self.fetch(Duration::ZERO).await;
        }
    }

    /// Verifies the signature of a token, and returns the version of the keys. If the token names
    /// an unknown key, fetches the keys first, unless they have just been fetched. Then the key may
    /// be newer than the known ones, so it is not known whether the token is valid.
    pub(super) async fn verify(&self, token: &Token<'_>) -> Result<u64, AuthenticationError> {
        let (start, mut fetched) = (Instant::now(), None);
        loop {
            let current = self.shared.current();
            return match current.keys.verify(token) {
                Verdict::Valid => Ok(current.version),
                Verdict::Invalid => {
                    Err(AuthenticationError::Refused("the signature of the token is not valid".to_owned()))
                }
                Verdict::UnknownKey => match fetched.take() {
                    None => {
                        fetched = Some(self.fetch(ANSWER_DURATION_MAX).await);
                        continue;
                    }
                    Some(Ok(())) if current.fetched_at >= start || current.has_withdrawn_key_of(token) => {
                        Err(AuthenticationError::Refused(match token.key_id {
                            Some(_) => "the issuer has no key that verifies the signature of the token".to_owned(),
                            None => "the token names no key (kid in its header), so the issuer must have exactly one \
                                     key for its algorithm, which must verify the signature"
                                .to_owned(),
                        }))
                    }
                    Some(Ok(())) => {
                        let next = FETCH_PAUSE.saturating_sub(current.fetched_at.elapsed());
                        Err(AuthenticationError::UnknownKey(next.as_secs() + 1))
                    }
                    Some(Err(reason)) => Err(AuthenticationError::Unavailable(reason)),
                },
            };
        }
    }

    /// Fetches the keys, and waits for them up to this time. Concurrent calls share a fetch, and
    /// calls within the pause its outcome.
    async fn fetch(&self, wait_max: Duration) -> Result<(), String> {
        let is_first = self.shared.read(|current| current.version == 0);
        let fetches = if is_first { &self.first } else { &self.again };
        let shared = self.shared.clone();
        let outcome = fetches.get(wait_max, || async move { shared.fetch().await }).await;
        outcome.unwrap_or_else(|| Err(FetchFailure::Timeout.to_string()))
    }
}

impl Current {
    /// Returns whether a key has signed the token that was withdrawn by the last change.
    fn has_withdrawn_key_of(&self, token: &Token<'_>) -> bool {
        matches!(self.previous.verify(token), Verdict::Valid)
    }
}

impl SharedKeys {
    fn read<T>(&self, read: impl FnOnce(&Current) -> T) -> T {
        read(&self.current.read())
    }

    fn current(&self) -> Current {
        self.read(Current::clone)
    }

    fn replace(&self, keys: KeySet) {
        let mut current = self.current.write();
        if *current.keys != keys {
            current.previous = mem::replace(&mut current.keys, Arc::new(keys));
            current.version += 1;
        }
        current.fetched_at = Instant::now();
    }

    async fn fetch(&self) -> Result<(), String> {
        let fetched = timeout(ANSWER_DURATION_MAX, self.source.load(&self.client)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(FetchFailure::Timeout.to_string()));
        self.outage.note(fetched.as_ref().err().map(String::as_str));
        self.replace(fetched?);
        Ok(())
    }
}

impl Source {
    async fn load(&self, client: &JsonClient) -> Result<KeySet, String> {
        let url = match self {
            Self::File(path) => {
                let path = path.clone();
                return spawn_blocking(move || read(&path)).await.map_err(|error| error.to_string())?;
            }
            Self::Url(url) => url.clone(),
            Self::Issuer(issuer) => {
                let url = format!("{}{CONFIGURATION_PATH}", issuer.trim_end_matches('/'));
                let configuration: IssuerConfiguration =
                    client.get(&url).await.map_err(|error| format!("configuration of the issuer: {error}"))?;
                if configuration.issuer != *issuer {
                    return Err("the issuer's configuration names another issuer".to_owned());
                }
                if issuer.starts_with("https:") && !configuration.jwks_uri.starts_with("https:") {
                    return Err("the issuer's configuration names keys without TLS".to_owned());
                }
                configuration.jwks_uri
            }
        };
        let document: Document = client.get(&url).await.map_err(|error| format!("keys of the issuer: {error}"))?;
        document.try_into()
    }
}

fn read(path: &PathBuf) -> Result<KeySet, String> {
    let file = File::open(path).and_then(|file| text::bytes_of(file.take(FILE_BYTES_MAX + 1)));
    let bytes = file.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("the file has more than {FILE_BYTES_MAX} bytes"));
    }
    let document: Document = serde_json::from_slice(&bytes).map_err(|error| {
        format!("the file is not a JSON Web Key Set (line {}, column {})", error.line(), error.column())
    })?;
    document.try_into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::vectors;
    use super::*;

    #[test]
    fn a_file_of_keys_may_begin_with_a_byte_order_mark() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let keys = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "x": vectors::EDDSA_X }] });
        std::fs::write(file.path(), format!("\u{feff}{keys}")).unwrap();

        assert!(read(&file.path().to_owned()).is_ok());
    }
}
