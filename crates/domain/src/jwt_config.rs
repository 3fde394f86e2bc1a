//! The options of JSON Web Tokens: `[jwt]`.

use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};

use crate::options::{Rule, options};

/// Any text, which is not the URL of a server with a user, because the user may have a password.
const TEXT_WITHOUT_USER: Rule =
    Rule::HiddenText(|text| !has_user(text), "text in quotes; a URL must not have a user or a password");

options! {
    /// The options of JSON Web Tokens, which an identity provider signs.
    #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
    pub struct JwtConfig {
        //! JSON Web Tokens that an OpenID provider signs, such as Keycloak or Auth0. The provider's
        //! public keys verify them, without a request to the provider. The keys are fetched again
        //! after 5 minutes, and at most once a minute if a token names a key that is not known. If
        //! they cannot be fetched, the last ones stay in use. docs/security.md has examples.

        /// Issuer of accepted tokens: their claim `iss` must be exactly this text. Accepted: any
        /// text, in general the URL of the provider. The default is empty: no token is accepted.
        pub issuer: String = "" in TEXT_WITHOUT_USER,
        /// Where the public keys are, as a JSON Web Key Set. Accepted: an http or https URL, the
        /// path of a file, or empty. The default is empty: the document
        /// .well-known/openid-configuration below the URL of the issuer names the URL of the keys.
        /// Everybody who can change the keys can act as any caller, so an http URL of another
        /// machine causes a warning. The URL must not have a user or a password. Its query is not
        /// logged.
        pub jwks: String = "" in TEXT_WITHOUT_USER,
        /// Audiences: the claim `aud` of a token must have one of them. Accepted: a list of texts.
        /// In the environment, they are separated by commas. The default is []: no token is
        /// accepted.
        pub audience: Vec<String> = [] in Rule::NAMES,
        /// Algorithms of accepted signatures. Accepted: a list of "RS256", "RS384", "RS512",
        /// "PS256", "PS384", "PS512", "ES256", "ES384" and "EdDSA" (with Ed25519). In the
        /// environment, they are separated by commas. There are none with a shared secret. The
        /// default is ["RS256", "ES256", "EdDSA"].
        pub algorithms: Vec<JwtAlgorithm> = ["RS256", "ES256", "EdDSA"] in Rule::SomeOf("a list of", &JwtAlgorithm::NAMES),
        /// Claim with the id of the project, which a token must have. Accepted: the name of a
        /// claim; dots lead into objects. The default is "project_id".
        pub project_claim: String = "project_id" in Rule::NAME,
        /// Claim with the roles, as a list or as a text with spaces between them. A token without
        /// it has no role. Accepted: the name of a claim; dots lead into objects, as in
        /// "realm_access.roles". The default is "roles".
        pub roles_claim: String = "roles" in Rule::NAME,
        /// By how much the clocks of the provider and of Sukkal may differ, in seconds. A token is
        /// accepted for this time before its claim `nbf` and after its claim `exp`. Accepted: 0 to
        /// 600. The default is 60.
        #[serde(rename = "leeway")]
        pub leeway_s: u64 = 60 in Rule::Integer(0, 600, "seconds");
    }
}

/// An algorithm of signatures. There is none with a shared secret, because a public key could be
/// taken for one.
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

/// Returns whether a text is a URL with a user, a password, or both.
fn has_user(text: &str) -> bool {
    let authority = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    authority.is_some_and(|authority| authority.contains('@'))
}
