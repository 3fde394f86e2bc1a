//! Signatures of notifications, as the Standard Webhooks specification defines them
//! (<https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use ring::signature::Ed25519KeyPair;
use sha2::Sha256;

use sukkal_domain::{SignatureAlgorithm, SigningKey};

/// Returns the value of `webhook-signature` for a notification with this id, time in seconds since
/// 1970 and body. It has a signature of each key that is valid at that time.
pub(super) fn sign(keys: &[SigningKey], id: &str, time_s: u64, body: &[u8]) -> String {
    let signed = [id.as_bytes(), b".", time_s.to_string().as_bytes(), b".", body].concat();
    let valid = keys.iter().filter(|key| key.until_s.is_none_or(|until_s| time_s < until_s));
    let signatures: Vec<String> = valid.filter_map(|key| signature(key, &signed)).collect();
    signatures.join(" ")
}

fn signature(key: &SigningKey, signed: &[u8]) -> Option<String> {
    match key.algorithm {
        SignatureAlgorithm::HmacSha256 => {
            let mut mac = Hmac::<Sha256>::new_from_slice(&key.bytes).expect("a key may have any length");
            mac.update(signed);
            Some(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
        }
        SignatureAlgorithm::Ed25519 => {
            let pair = Ed25519KeyPair::from_seed_unchecked(&key.bytes).ok()?;
            Some(format!("v1a,{}", STANDARD.encode(pair.sign(signed))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, until_s: Option<u64>) -> SigningKey {
        SigningKey { algorithm: SignatureAlgorithm::HmacSha256, bytes: STANDARD.decode(text).unwrap().into(), until_s }
    }

    #[test]
    fn a_signature_is_that_of_the_reference_libraries() {
        // The example of the libraries' own tests.
        let key = key("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None);

        let signature = sign(&[key], "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);

        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn two_keys_sign_during_a_rotation() {
        let keys = [key("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", None), key("c2Vjb25kIGtleSBvZiAyNCBieXRlcyE=", Some(100))];

        assert_eq!(sign(&keys, "m", 99, b"{}").split(' ').count(), 2);
        assert_eq!(sign(&keys, "m", 100, b"{}").split(' ').count(), 1);
    }

    #[test]
    fn an_ed25519_signature_can_be_verified_with_the_public_key() {
        use ring::signature::{ED25519, KeyPair, UnparsedPublicKey};
        let seed = vec![7; 32];
        let public = *Ed25519KeyPair::from_seed_unchecked(&seed).unwrap().public_key();
        let key = SigningKey { algorithm: SignatureAlgorithm::Ed25519, bytes: seed.into(), until_s: None };

        let text = sign(&[key], "m", 5, b"{}");

        let signature = STANDARD.decode(text.strip_prefix("v1a,").unwrap()).unwrap();
        UnparsedPublicKey::new(&ED25519, public).verify(b"m.5.{}", &signature).unwrap();
    }
}
