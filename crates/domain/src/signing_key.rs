//! The texts of keys that sign notifications, as in the Standard Webhooks specification.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use thiserror::Error;
use zeroize::Zeroizing;

use super::{SignatureAlgorithm, SigningKey};

/// Length of a new key in bytes, and of every Ed25519 key.
const KEY_BYTES: usize = 32;
/// Accepted lengths of an HMAC key, in bytes.
const HMAC_BYTES_MIN: usize = 24;
const HMAC_BYTES_MAX: usize = 64;
const PUBLIC_PREFIX: &str = "whpk_";

/// The text is not a key for the algorithm. The error does not show the text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("secret must be {}, because the option signature is \"{}\"", .0.expected(), .0.name())]
pub struct InvalidSecret(SignatureAlgorithm);

impl SignatureAlgorithm {
    /// Returns the name of the algorithm in signatures and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HmacSha256 => "v1",
            Self::Ed25519 => "v1a",
        }
    }

    /// Returns the algorithm with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::HmacSha256, Self::Ed25519].into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::HmacSha256 => "whsec_",
            Self::Ed25519 => "whsk_",
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::HmacSha256 => "\"whsec_\" and 24 to 64 random bytes in base64",
            Self::Ed25519 => "\"whsk_\" and 32 random bytes in base64",
        }
    }
}

impl SigningKey {
    /// Returns a new random key without an end.
    #[must_use]
    pub fn random(algorithm: SignatureAlgorithm) -> Self {
        let mut bytes = Zeroizing::new(vec![0; KEY_BYTES]);
        SystemRandom::new().fill(&mut bytes).expect("the operating system has random bytes");
        Self { algorithm, bytes, until_s: None }
    }

    /// Parses the text of a secret key for this algorithm.
    pub fn parse(text: &str, algorithm: SignatureAlgorithm) -> Result<Self, InvalidSecret> {
        let lengths = match algorithm {
            SignatureAlgorithm::HmacSha256 => HMAC_BYTES_MIN..=HMAC_BYTES_MAX,
            SignatureAlgorithm::Ed25519 => KEY_BYTES..=KEY_BYTES,
        };
        let bytes =
            text.strip_prefix(algorithm.prefix()).and_then(|text| STANDARD.decode(text).ok()).map(Zeroizing::new);
        let bytes = bytes.filter(|bytes| lengths.contains(&bytes.len())).ok_or(InvalidSecret(algorithm))?;
        Ok(Self { algorithm, bytes, until_s: None })
    }

    /// Returns the text of the secret key.
    #[must_use]
    pub fn secret(&self) -> String {
        format!("{}{}", self.algorithm.prefix(), STANDARD.encode(&*self.bytes))
    }

    /// Returns the text of the public key, with which a subscriber verifies signatures. Returns
    /// `None` if the algorithm has only secret keys.
    #[must_use]
    pub fn public_key(&self) -> Option<String> {
        let pair = match self.algorithm {
            SignatureAlgorithm::HmacSha256 => return None,
            SignatureAlgorithm::Ed25519 => Ed25519KeyPair::from_seed_unchecked(&self.bytes).ok()?,
        };
        Some(format!("{PUBLIC_PREFIX}{}", STANDARD.encode(pair.public_key())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_from_its_own_text() {
        for algorithm in [SignatureAlgorithm::HmacSha256, SignatureAlgorithm::Ed25519] {
            let key = SigningKey::random(algorithm);

            assert_eq!(SigningKey::parse(&key.secret(), algorithm).as_ref(), Ok(&key));
            assert_ne!(SigningKey::random(algorithm), key);
            assert_eq!(SignatureAlgorithm::of_name(algorithm.name()), Some(algorithm));
        }
    }

    /// The first key of RFC 8032, section 7.1.
    #[test]
    fn the_public_key_belongs_to_the_seed() {
        let seed = "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A=";
        let key = SigningKey::parse(seed, SignatureAlgorithm::Ed25519).unwrap();

        assert_eq!(key.public_key().as_deref(), Some("whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="));
        assert_eq!(SigningKey::random(SignatureAlgorithm::HmacSha256).public_key(), None);
    }

    #[test]
    fn a_secret_has_the_prefix_and_the_length_of_its_algorithm() {
        let secret = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        let parse = |text: &str| SigningKey::parse(text, SignatureAlgorithm::HmacSha256);

        assert!(parse(&secret(24)).is_ok() && parse(&secret(64)).is_ok());
        let seed = SigningKey::random(SignatureAlgorithm::Ed25519).secret();
        for invalid in ["", "whsec_", "whsec_?", "WHSEC_AAAA", &secret(23), &secret(65), &secret(24)[6..], &seed] {
            let error = parse(invalid).unwrap_err().to_string();
            assert!(error.starts_with("secret must be \"whsec_\" and 24 to 64"), "{error}");
        }
        assert!(SigningKey::parse(&secret(32), SignatureAlgorithm::Ed25519).is_err());
    }
}
