//! JSON Web Tokens that an `OpenID` provider signs. A token is verified without a request to the
//! provider, whose public keys are fetched now and then.

mod claims;
mod key_set;
mod keys;
mod token;
#[cfg(test)]
mod vectors;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use quick_cache::sync::Cache;
use ring::digest::{Digest, SHA256, digest};

use self::keys::{Keys, Source};
use self::token::Token;
use crate::auth::{AuthenticationError, Identity};
use crate::authentication::token::TokenStrategy;
use sukkal_domain::JwtConfig;

/// Maximum size of a token, in bytes.
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// Maximum number of verified tokens that are remembered.
const VERIFIED_TOKENS_MAX: usize = 10_000;

/// The strategy `jwt`. Clones share their keys.
#[derive(Clone)]
pub struct Jwt {
    config: Arc<JwtConfig>,
    keys: Arc<Keys>,
    /// Verified tokens by their SHA-256, because a signature costs more than a whole request.
    verified: Arc<Cache<[u8; 32], Arc<Verified>>>,
}

/// A token whose signature and claims are valid.
struct Verified {
    identity: Identity,
    expires_at: SystemTime,
    /// The version of the keys that have verified it.
    keys_version: u64,
}

impl Jwt {
    /// Begins to fetch the keys of the issuer, or reads them from a file. Returns why the
    /// configuration cannot be used. It must be called in a runtime.
    pub fn new(config: JwtConfig) -> Result<Self, String> {
        for (option, is_empty) in [
            ("issuer", config.issuer.is_empty()),
            ("audience", config.audience.is_empty()),
            ("algorithms", config.algorithms.is_empty()),
        ] {
            if is_empty {
                return Err(format!("jwt.{option} is empty; the strategy jwt needs it"));
            }
        }
        let is_url = |text: &str| text.starts_with("https://") || text.starts_with("http://");
        let source = match config.jwks.as_str() {
            "" if is_url(&config.issuer) => Source::Issuer(config.issuer.clone()),
            "" => return Err("jwt.jwks is empty; it must have the keys, because jwt.issuer is not a URL".to_owned()),
            url if is_url(url) => Source::Url(url.to_owned()),
            path => Source::File(PathBuf::from(path)),
        };
        let keys = Keys::new(source).map_err(|reason| format!("jwt.jwks: {reason}"))?;
        Ok(Self { config: Arc::new(config), keys, verified: Arc::new(Cache::new(VERIFIED_TOKENS_MAX)) })
    }

    /// Returns the identity that a token proves.
    pub async fn identify(&self, token: &str) -> Result<Identity, AuthenticationError> {
        let refused = AuthenticationError::Refused;
        if token.len() > TOKEN_BYTES_MAX {
            let text = format!("the token has {} bytes; at most {TOKEN_BYTES_MAX} are accepted", token.len());
            return Err(refused(text));
        }
        self.keys.refresh_if_old().await;
        let hash = sha256(token);
        let now = SystemTime::now();
        if let Some(verified) = self.verified.get(&hash)
            && now < verified.expires_at
            && verified.keys_version == self.keys.version()
        {
            return Ok(verified.identity.clone());
        }
        let token = Token::parse(token, &self.config.algorithms).map_err(refused)?;
        // Only a token with the right claims may cause a fetch of the keys.
        let claims = token.claims().ok_or_else(|| refused("the claims of the token are not an object".to_owned()))?;
        let proof = claims::check(claims, &self.config, now).map_err(refused)?;
        let keys_version = self.keys.verify(&token).await?;
        let verified = Verified { identity: proof.identity, expires_at: proof.expires_at, keys_version };
        let identity = verified.identity.clone();
        self.verified.insert(hash, Arc::new(verified));
        Ok(identity)
    }
}

#[async_trait]
impl TokenStrategy for Jwt {
    async fn identify(&self, token: &str, _service_token: Option<&str>) -> Result<Identity, AuthenticationError> {
        self.identify(token).await
    }
}

fn sha256(token: &str) -> [u8; 32] {
    let digest: Digest = digest(&SHA256, token.as_bytes());
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}
