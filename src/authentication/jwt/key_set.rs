//! The public keys of an issuer (RFC 7517), and signatures that they verify.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};
use serde::Deserialize;
use serde_json::Value;

use super::token::Token;
use sukkal_domain::JwtAlgorithm;

/// Maximum number of keys of an issuer.
const KEYS_MAX: usize = 256;
/// Sizes in bytes of RSA keys that are safe and that can be verified in a short time.
const RSA_BYTES_MIN: usize = 2048 / 8;
const RSA_BYTES_MAX: usize = 8192 / 8;
/// The prefix of a point that is not compressed.
const UNCOMPRESSED: u8 = 4;

/// The keys of an issuer that can verify signatures.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KeySet(Vec<Key>);

/// What a set of keys says about a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Valid,
    Invalid,
    /// The key that the token names is not in the set.
    UnknownKey,
}

#[derive(Debug, PartialEq, Eq)]
struct Key {
    id: Option<String>,
    /// The only algorithm that the key is for; `None` for all that its kind allows.
    algorithm: Option<JwtAlgorithm>,
    material: Material,
}

#[derive(Debug, PartialEq, Eq)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

/// A document with keys.
#[derive(Deserialize)]
pub(super) struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct DocumentKey {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl TryFrom<Document> for KeySet {
    type Error = String;

    /// Takes the keys that can verify signatures. A key of an unknown kind, a shared secret or a
    /// weak key is not taken.
    fn try_from(document: Document) -> Result<Self, String> {
        if document.keys.len() > KEYS_MAX {
            return Err(format!("there are {} keys; at most {KEYS_MAX} are accepted", document.keys.len()));
        }
        let keys: Vec<Key> = document.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err("there is no key that can verify signatures".to_owned()) } else { Ok(Self(keys)) }
    }
}

impl KeySet {
    /// Verifies the signature of a token with the key that it names. A token that names none is
    /// verified only if there is one key for its algorithm.
    pub(super) fn verify(&self, token: &Token<'_>) -> Verdict {
        let id = token.key_id.as_deref();
        let is_named = |key: &Key| id.is_some() && key.id.as_deref() == id;
        let mut candidates = self
            .0
            .iter()
            .filter(|key| key.suits(token.algorithm))
            .filter(|key| id.is_none() || key.id.is_none() || is_named(key));
        let is_valid = match id {
            Some(_) => candidates.any(|key| key.verifies(token)),
            None => candidates.next().is_some_and(|key| candidates.next().is_none() && key.verifies(token)),
        };
        if is_valid {
            Verdict::Valid
        } else if self.0.iter().any(is_named) {
            Verdict::Invalid
        } else {
            Verdict::UnknownKey
        }
    }
}

impl Key {
    fn read(value: Value) -> Option<Self> {
        let key: DocumentKey = serde_json::from_value(value).ok()?;
        let is_for_signatures = key.usage.as_deref().is_none_or(|usage| usage == "sig")
            && key.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|operation| operation == "verify"));
        if !is_for_signatures {
            return None;
        }
        let algorithm = match &key.alg {
            None => None,
            Some(name) => Some(JwtAlgorithm::named(name)?),
        };
        // RFC 7515 has no padding, but some issuers write it.
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?.trim_end_matches('=')).ok();
        let number = |text: &Option<String>| {
            let bytes = bytes(text)?;
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            Some(bytes[zeros..].to_vec())
        };
        let coordinate = |text: &Option<String>, length: usize| bytes(text).filter(|bytes| bytes.len() == length);
        let point =
            |length| Some([vec![UNCOMPRESSED], coordinate(&key.x, length)?, coordinate(&key.y, length)?].concat());
        let material = match (key.kty.as_str(), key.crv.as_deref()) {
            ("RSA", _) => {
                let modulus = number(&key.n).filter(|n| (RSA_BYTES_MIN..=RSA_BYTES_MAX).contains(&n.len()))?;
                Material::Rsa { modulus, exponent: number(&key.e)? }
            }
            ("EC", Some("P-256")) => Material::P256(point(32)?),
            ("EC", Some("P-384")) => Material::P384(point(48)?),
            ("OKP", Some("Ed25519")) => Material::Ed25519(coordinate(&key.x, 32)?),
            _ => return None,
        };
        Some(Self { id: key.kid, algorithm, material })
    }

    fn suits(&self, algorithm: JwtAlgorithm) -> bool {
        use JwtAlgorithm::{EdDsa, Es256, Es384, Ps256, Ps384, Ps512, Rs256, Rs384, Rs512};
        let is_of_kind = match self.material {
            Material::Rsa { .. } => matches!(algorithm, Rs256 | Rs384 | Rs512 | Ps256 | Ps384 | Ps512),
            Material::P256(_) => algorithm == Es256,
            Material::P384(_) => algorithm == Es384,
            Material::Ed25519(_) => algorithm == EdDsa,
        };
        is_of_kind && self.algorithm.is_none_or(|own| own == algorithm)
    }

    /// Verifies a signature by an algorithm that the key suits.
    fn verifies(&self, token: &Token<'_>) -> bool {
        let verified = match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters = match token.algorithm {
                    JwtAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    JwtAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    JwtAlgorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    JwtAlgorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    JwtAlgorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    _ => &signature::RSA_PKCS1_2048_8192_SHA256,
                };
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(parameters, token.signed, &token.signature)
            }
            Material::P256(point) => UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, point)
                .verify(token.signed, &token.signature),
            Material::P384(point) => UnparsedPublicKey::new(&signature::ECDSA_P384_SHA384_FIXED, point)
                .verify(token.signed, &token.signature),
            Material::Ed25519(key) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(token.signed, &token.signature)
            }
        };
        verified.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::vectors;
    use super::*;

    fn set(keys: &Value) -> Result<KeySet, String> {
        serde_json::from_value::<Document>(json!({ "keys": keys })).unwrap().try_into()
    }

    fn rsa(modulus: &str) -> Value {
        json!({ "kty": "RSA", "n": modulus, "e": "AQAB" })
    }

    fn ec(curve: &str, x: &str, y: &str) -> Value {
        json!({ "kty": "EC", "crv": curve, "x": x, "y": y })
    }

    fn ed25519() -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "x": vectors::EDDSA_X })
    }

    fn all_algorithms() -> Vec<JwtAlgorithm> {
        JwtAlgorithm::NAMES.iter().map(|name| JwtAlgorithm::named(name).unwrap()).collect()
    }

    /// Verifies a token with a set of keys.
    fn verify(keys: &Value, token: &str) -> Verdict {
        set(keys).unwrap().verify(&Token::parse(token, &all_algorithms()).unwrap())
    }

    /// The token with another key id in its header. Its signature is not valid any more.
    fn with_key_id(token: &str, id: &str) -> String {
        let (_, rest) = token.split_once('.').unwrap();
        let header = json!({ "alg": "ES256", "kid": id }).to_string();
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
    }

    #[test]
    fn numbers_of_a_key_may_have_padding() {
        let padded = json!({ "kty": "OKP", "crv": "Ed25519", "x": format!("{}=", vectors::EDDSA_X) });

        assert_eq!(verify(&json!([padded]), vectors::EDDSA), Verdict::Valid);
    }

    #[test]
    fn signatures_of_the_standards_are_verified_by_their_keys_only() {
        let es256 = ec("P-256", vectors::ES256_X, vectors::ES256_Y);
        let es384 = ec("P-384", vectors::ES384_X, vectors::ES384_Y);
        for (token, key) in [
            (vectors::RS256, rsa(vectors::RS256_MODULUS)),
            (vectors::RS384, rsa(vectors::RSA_MODULUS)),
            (vectors::RS512, rsa(vectors::RSA_MODULUS)),
            (vectors::PS256, rsa(vectors::RSA_MODULUS)),
            (vectors::PS384, rsa(vectors::RSA_MODULUS)),
            (vectors::PS512, rsa(vectors::RSA_MODULUS)),
            (vectors::ES256, es256.clone()),
            (vectors::ES384, es384.clone()),
            (vectors::EDDSA, ed25519()),
        ] {
            assert_eq!(verify(&json!([key]), token), Verdict::Valid, "{token}");

            let (signed, signature) = token.rsplit_once('.').unwrap();
            let first = if signature.starts_with('A') { "B" } else { "A" };
            let changed = format!("{signed}.{first}{}", &signature[1..]);
            assert_ne!(verify(&json!([key]), &changed), Verdict::Valid, "{token}");
            let empty = format!("{signed}.");
            assert_ne!(verify(&json!([key]), &empty), Verdict::Valid, "{token}");
            for other in [ed25519(), es256.clone(), es384.clone(), rsa(vectors::RSA_MODULUS)] {
                let is_own = other == key;
                assert!(is_own || verify(&json!([other]), token) != Verdict::Valid, "{token} with {other}");
            }
        }
    }

    #[test]
    fn a_key_is_used_only_for_what_it_is_for() {
        let key = rsa(vectors::RS256_MODULUS);
        let with = |name: &str, value: Value| {
            let mut key = key.clone();
            key[name] = value;
            key
        };
        for (key, is_used) in [
            (with("use", json!("sig")), true),
            (with("key_ops", json!(["verify"])), true),
            (with("alg", json!("RS256")), true),
            // A leading zero does not count.
            (with("e", json!("AAEAAQ")), true),
            (with("use", json!("enc")), false),
            (with("key_ops", json!(["encrypt"])), false),
            (with("alg", json!("RS512")), false),
            (with("alg", json!("RSA-OAEP")), false),
            (with("e", json!("AQ")), false),
            (with("kty", json!("EC")), false),
            (with("n", json!(&vectors::RS256_MODULUS[..160])), false),
            (with("n", json!("not base64!")), false),
            (json!({ "kty": "oct", "k": vectors::RS256_MODULUS, "alg": "HS256" }), false),
            (json!(3), false),
        ] {
            // Another key, so that the set is not empty.
            let verdict = verify(&json!([ed25519(), key]), vectors::RS256);
            assert_eq!(verdict == Verdict::Valid, is_used, "{key}");
        }
        assert!(set(&json!([{ "kty": "oct", "k": "AAAA" }])).unwrap_err().contains("no key that can verify"));
        let many = vec![ed25519(); KEYS_MAX + 1];
        assert!(set(&json!(many)).unwrap_err().contains("at most 256"));
    }

    #[test]
    fn a_token_without_a_key_id_needs_the_only_key_of_its_kind() {
        let (own, other) = (rsa(vectors::RS256_MODULUS), rsa(vectors::RSA_MODULUS));

        assert_eq!(verify(&json!([ed25519(), own]), vectors::RS256), Verdict::Valid);
        assert_eq!(verify(&json!([own, other]), vectors::RS256), Verdict::UnknownKey);
    }

    #[test]
    fn the_key_id_says_whether_the_key_is_known() {
        let mut key = ec("P-256", vectors::ES256_X, vectors::ES256_Y);
        key["kid"] = json!("a");

        assert_eq!(verify(&json!([key]), &with_key_id(vectors::ES256, "a")), Verdict::Invalid);
        assert_eq!(verify(&json!([key]), &with_key_id(vectors::ES256, "b")), Verdict::UnknownKey);
    }
}
