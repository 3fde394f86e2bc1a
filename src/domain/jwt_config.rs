//! The options of JSON Web Tokens. `[jwt]` in `config/default.toml` explains each of them.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

/// The options of JSON Web Tokens, which an identity provider signs.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct JwtConfig {
    /// The issuer of accepted tokens; empty if no token is accepted.
    pub issuer: String,
    /// The file or URL of the issuer's keys; empty if the issuer's configuration names it.
    pub jwks: String,
    /// The audiences of which a token must have one.
    pub audience: Vec<String>,
    /// The algorithms of accepted signatures.
    pub algorithms: Vec<JwtAlgorithm>,
    /// The name of the claim with the project.
    pub project_claim: String,
    /// The name of the claim with the roles.
    pub roles_claim: String,
    /// By how much clocks may differ, in seconds.
    #[serde(rename = "leeway")]
    pub leeway_s: u64,
}

/// An algorithm of signatures. There is none with a shared secret, because a public key could be taken
/// for one.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
pub enum JwtAlgorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
    /// RSA with PKCS #1 v1.5 and SHA-384.
    Rs384,
    /// RSA with PKCS #1 v1.5 and SHA-512.
    Rs512,
    /// RSA with PSS and SHA-256.
    Ps256,
    /// RSA with PSS and SHA-384.
    Ps384,
    /// RSA with PSS and SHA-512.
    Ps512,
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// Ed25519, which RFC 9864 calls by that name.
    #[serde(rename = "EdDSA", alias = "Ed25519")]
    EdDsa,
}

impl JwtAlgorithm {
    /// The names of all algorithms.
    pub const NAMES: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];

    /// Returns the algorithm with this name in tokens and keys.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}
