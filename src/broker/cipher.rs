//! The cipher of message bodies: AES-256-GCM-SIV (RFC 8452), its key the SHA-256 of the operator's passphrase.
//!
//! Inside a sealed body are the key's id (8 bytes), a random nonce (12) and the ciphertext with its tag (16 more
//! than the plain text). The project is authenticated with it, so that nothing sealed for one tenant opens for
//! another. Should a nonce ever repeat, this mode still shows no more than whether two texts were equal.

use aes_gcm_siv::aead::{Aead, Generate, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Key, KeyInit, Nonce};
use sha2::{Digest, Sha256};

use crate::domain::ProjectId;

const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
/// Sets the hash that names a key apart from every other use of it.
const KEY_ID_PURPOSE: &[u8] = b"sukkal: the id of a message key";

/// One key, to seal and to open with. It shows itself to nobody.
pub struct Cipher {
    aead: Aes256GcmSiv,
    key_id: [u8; KEY_ID_BYTES],
}

/// Why something sealed is not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It was sealed with another key.
    OtherKey,
    /// It is not what was sealed, or was sealed for another project.
    Damaged,
}

impl Cipher {
    /// The cipher of this passphrase.
    #[must_use]
    pub fn new(passphrase: &str) -> Self {
        let key: Key<Aes256GcmSiv> = Sha256::digest(passphrase);
        let mut key_id = [0; KEY_ID_BYTES];
        key_id
            .copy_from_slice(&Sha256::new().chain_update(KEY_ID_PURPOSE).chain_update(key).finalize()[..KEY_ID_BYTES]);
        Self { aead: Aes256GcmSiv::new(&key), key_id }
    }

    /// What stands inside a sealed body.
    #[must_use]
    pub fn seal(&self, project: &ProjectId, plain: &[u8]) -> Vec<u8> {
        let nonce = Nonce::generate();
        let payload = Payload { msg: plain, aad: project.as_str().as_bytes() };
        let ciphertext = self.aead.encrypt(&nonce, payload).expect("no body is longer than 64 GiB");
        [&self.key_id[..], &nonce, &ciphertext].concat()
    }

    /// What was sealed.
    pub fn open(&self, project: &ProjectId, sealed: &[u8]) -> Result<Vec<u8>, Failure> {
        let (key_id, rest) = sealed.split_at_checked(KEY_ID_BYTES).ok_or(Failure::Damaged)?;
        if key_id != self.key_id {
            return Err(Failure::OtherKey);
        }
        let (nonce, ciphertext) = rest.split_at_checked(NONCE_BYTES).ok_or(Failure::Damaged)?;
        let nonce = Nonce::try_from(nonce).map_err(|_| Failure::Damaged)?;
        let payload = Payload { msg: ciphertext, aad: project.as_str().as_bytes() };
        self.aead.decrypt(&nonce, payload).map_err(|_| Failure::Damaged)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn project(name: &str) -> ProjectId {
        ProjectId::new(name).unwrap()
    }

    proptest! {
        #[test]
        fn what_was_sealed_opens_with_the_same_passphrase(plain: Vec<u8>, passphrase: String) {
            let sealed = Cipher::new(&passphrase).seal(&project("p"), &plain);

            prop_assert_eq!(Cipher::new(&passphrase).open(&project("p"), &sealed), Ok(plain));
        }

        #[test]
        fn nothing_that_was_changed_or_cut_opens(plain: Vec<u8>, at: prop::sample::Index, change in 1..=255u8) {
            let cipher = Cipher::new("secret");
            let sealed = cipher.seal(&project("p"), &plain);
            let mut changed = sealed.clone();
            let at = at.index(sealed.len());
            changed[at] ^= change;

            let failure = if at < KEY_ID_BYTES { Failure::OtherKey } else { Failure::Damaged };
            prop_assert_eq!(cipher.open(&project("p"), &changed), Err(failure));
            prop_assert_eq!(cipher.open(&project("p"), &sealed[..at]), Err(Failure::Damaged));
        }
    }

    #[test]
    fn another_passphrase_is_recognised_as_such() {
        let sealed = Cipher::new("secret").seal(&project("p"), b"hello");

        assert_eq!(Cipher::new("Secret").open(&project("p"), &sealed), Err(Failure::OtherKey));
    }

    #[test]
    fn nothing_sealed_for_one_project_opens_for_another() {
        let cipher = Cipher::new("secret");
        let sealed = cipher.seal(&project("p"), b"hello");

        assert_eq!(cipher.open(&project("q"), &sealed), Err(Failure::Damaged));
    }

    #[test]
    fn equal_texts_are_sealed_differently() {
        let cipher = Cipher::new("secret");

        assert_ne!(cipher.seal(&project("p"), b"hello"), cipher.seal(&project("p"), b"hello"));
    }

    #[test]
    fn what_another_implementation_has_sealed_opens() {
        // By pyca/cryptography over OpenSSL, from the same passphrase, project and text.
        let sealed = [
            0xa162_152c_6827_786b_u64,
            0x0001_0203_0405_0607,
            0x0809_0a0b_77ac_db96,
            0xf27f_d218_18a6_6e31,
            0x7d5e_43ee_1809_f999,
            0x5300_0000_0000_0000,
        ];
        let sealed = sealed.map(u64::to_be_bytes).concat();

        assert_eq!(Cipher::new("secret").open(&project("p"), &sealed[..41]), Ok(b"hello".to_vec()));
    }
}
