//! The cipher of message bodies: AES-256-GCM-SIV (RFC 8452). Its key is the SHA-256 of the
//! operator's passphrase.
//!
//! An encrypted body consists of the key's id (8 bytes), a random nonce (12 bytes) and the
//! ciphertext. The tag makes the ciphertext 16 bytes longer than the plaintext. The project is
//! authenticated with it, so a body that was encrypted for one project cannot be decrypted for
//! another. If a nonce ever repeats, this mode reveals only whether two plaintexts are equal.
//!
//! The id of its key tells which of several keys decrypts a body. All encrypted forms of a
//! plaintext have the same length.

use aes_gcm_siv::aead::{Aead, Generate, Payload};
use aes_gcm_siv::{Aes256GcmSiv, Key, KeyInit, Nonce};
use sha2::{Digest, Sha256};
use zeroize::{Zeroize, Zeroizing};

use sukkal_domain::{PoolName, PoolUri, ProjectId};
use sukkal_storage::{SealedUriError, UriCipher};

const KEY_ID_BYTES: usize = 8;
const NONCE_BYTES: usize = 12;
/// Separates the hash that is a key's id from every other use of the key.
const KEY_ID_PURPOSE: &[u8] = b"sukkal: the id of a message key";

/// The keys that encrypt and decrypt. It has no `Debug`, so that they cannot be logged. Their
/// memory is overwritten when it is dropped.
pub struct Cipher {
    /// The key that encrypts, and decrypts too.
    first: CipherKey,
    /// Further keys that decrypt.
    others: Vec<CipherKey>,
}

struct CipherKey {
    aead: Aes256GcmSiv,
    id: [u8; KEY_ID_BYTES],
}

/// The reason why a body cannot be decrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CipherFailure {
    /// The body was encrypted with a key that is not among these.
    OtherKey,
    /// The body was changed, or was encrypted for another project.
    Damaged,
}

impl Cipher {
    /// Creates the cipher of this passphrase.
    #[must_use]
    pub fn new(passphrase: &str) -> Self {
        Self { first: CipherKey::new(passphrase), others: Vec::new() }
    }

    /// Also decrypts what was encrypted with these passphrases.
    #[must_use]
    pub fn accepting<'p>(self, passphrases: impl IntoIterator<Item = &'p str>) -> Self {
        Self { others: passphrases.into_iter().map(CipherKey::new).collect(), ..self }
    }

    /// Encrypts a body of this project.
    #[must_use]
    pub fn encrypt(&self, project: &ProjectId, plaintext: &[u8]) -> Vec<u8> {
        self.seal_for(project.as_str().as_bytes(), plaintext)
    }

    /// Encrypts a text that can be decrypted only for the same context.
    fn seal_for(&self, context: &[u8], plaintext: &[u8]) -> Vec<u8> {
        let nonce = Nonce::generate();
        let payload = Payload { msg: plaintext, aad: context };
        let ciphertext = self.first.aead.encrypt(&nonce, payload).expect("no body is longer than 64 GiB");
        [&self.first.id[..], &nonce, &ciphertext].concat()
    }

    /// Decrypts a body of this project.
    pub fn decrypt(&self, project: &ProjectId, encrypted: &[u8]) -> Result<Vec<u8>, CipherFailure> {
        self.open_for(project.as_str().as_bytes(), encrypted)
    }

    fn open_for(&self, context: &[u8], encrypted: &[u8]) -> Result<Vec<u8>, CipherFailure> {
        let (key_id, rest) = encrypted.split_at_checked(KEY_ID_BYTES).ok_or(CipherFailure::Damaged)?;
        let mut keys = [&self.first].into_iter().chain(&self.others);
        let key = keys.find(|key| key.id == key_id).ok_or(CipherFailure::OtherKey)?;
        let (nonce, ciphertext) = rest.split_at_checked(NONCE_BYTES).ok_or(CipherFailure::Damaged)?;
        let nonce = Nonce::try_from(nonce).map_err(|_| CipherFailure::Damaged)?;
        let payload = Payload { msg: ciphertext, aad: context };
        key.aead.decrypt(&nonce, payload).map_err(|_| CipherFailure::Damaged)
    }

    /// Returns the body encrypted with the first key, or `None` if it is already.
    pub(super) fn reencrypt(&self, project: &ProjectId, encrypted: &[u8]) -> Result<Option<Vec<u8>>, CipherFailure> {
        if self.is_current(encrypted) {
            return Ok(None);
        }
        Ok(Some(self.encrypt(project, &self.decrypt(project, encrypted)?)))
    }

    /// Returns whether the text is encrypted with the first key.
    pub(super) fn is_current(&self, encrypted: &[u8]) -> bool {
        encrypted.starts_with(&self.first.id)
    }
}

impl UriCipher for Cipher {
    fn seal(&self, pool: &PoolName, uri: &PoolUri) -> Vec<u8> {
        self.seal_for(&pool_context(pool), uri.reveal().as_bytes())
    }

    fn open(&self, pool: &PoolName, sealed: &[u8]) -> Result<PoolUri, SealedUriError> {
        let opened = self.open_for(&pool_context(pool), sealed).map_err(|failure| match failure {
            CipherFailure::OtherKey => SealedUriError::OtherKey,
            CipherFailure::Damaged => SealedUriError::Damaged,
        })?;
        let text = Zeroizing::new(String::from_utf8(opened).map_err(|_| SealedUriError::Damaged)?);
        text.parse().map_err(|_| SealedUriError::Damaged)
    }
}

/// Returns the context in which the URI of a pool is encrypted. It differs from that of each
/// project, because ids of projects are UTF-8.
fn pool_context(pool: &PoolName) -> Vec<u8> {
    [b"\xffpool ", pool.as_str().as_bytes()].concat()
}

impl CipherKey {
    fn new(passphrase: &str) -> Self {
        let mut key: Key<Aes256GcmSiv> = Sha256::digest(passphrase);
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(
            &Sha256::new().chain_update(KEY_ID_PURPOSE).chain_update(key.as_slice()).finalize()[..KEY_ID_BYTES],
        );
        let aead = Aes256GcmSiv::new(&key);
        key.as_mut_slice().zeroize();
        Self { aead, id }
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
        fn a_body_is_decrypted_with_the_same_passphrase(plaintext: Vec<u8>, passphrase: String) {
            let encrypted = Cipher::new(&passphrase).encrypt(&project("p"), &plaintext);

            prop_assert_eq!(Cipher::new(&passphrase).decrypt(&project("p"), &encrypted), Ok(plaintext));
        }

        #[test]
        fn a_changed_or_truncated_body_is_not_decrypted(plaintext: Vec<u8>, at: prop::sample::Index, change in 1..=255u8) {
            let cipher = Cipher::new("secret");
            let encrypted = cipher.encrypt(&project("p"), &plaintext);
            let mut changed = encrypted.clone();
            let at = at.index(encrypted.len());
            changed[at] ^= change;

            let failure = if at < KEY_ID_BYTES { CipherFailure::OtherKey } else { CipherFailure::Damaged };
            prop_assert_eq!(cipher.decrypt(&project("p"), &changed), Err(failure));
            prop_assert_eq!(cipher.decrypt(&project("p"), &encrypted[..at]), Err(CipherFailure::Damaged));
        }
    }

    #[test]
    fn another_passphrase_is_recognized() {
        let encrypted = Cipher::new("secret").encrypt(&project("p"), b"hello");

        assert_eq!(Cipher::new("Secret").decrypt(&project("p"), &encrypted), Err(CipherFailure::OtherKey));
    }

    #[test]
    fn several_keys_decrypt_and_the_first_encrypts() {
        let [old, new] = ["old", "new"].map(Cipher::new);
        let both = Cipher::new("new").accepting(["older", "old"]);
        let encrypted = old.encrypt(&project("p"), b"hello");

        assert_eq!(both.decrypt(&project("p"), &encrypted).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(new.decrypt(&project("p"), &both.encrypt(&project("p"), b"hello")).as_deref(), Ok(&b"hello"[..]));
        let again = both.reencrypt(&project("p"), &encrypted).unwrap().unwrap();
        assert_eq!(new.decrypt(&project("p"), &again).as_deref(), Ok(&b"hello"[..]));
        assert_eq!(again.len(), encrypted.len());
        assert_eq!(both.reencrypt(&project("p"), &again), Ok(None));
        assert_eq!(new.reencrypt(&project("p"), &encrypted), Err(CipherFailure::OtherKey));
    }

    #[test]
    fn a_body_of_one_project_is_not_decrypted_for_another() {
        let cipher = Cipher::new("secret");
        let encrypted = cipher.encrypt(&project("p"), b"hello");

        assert_eq!(cipher.decrypt(&project("q"), &encrypted), Err(CipherFailure::Damaged));
    }

    #[test]
    fn the_uri_of_a_pool_is_decrypted_for_this_pool_with_one_of_the_keys() {
        let [pool, other]: [PoolName; 2] = ["a", "b"].map(|name| name.parse().unwrap());
        let uri: PoolUri = "redis://u:p@h".parse().unwrap();
        let cipher = Cipher::new("new").accepting(["old"]);
        let sealed = Cipher::new("old").seal(&pool, &uri);

        assert_eq!(cipher.open(&pool, &sealed), Ok(uri.clone()));
        assert!(!cipher.is_current(&sealed) && cipher.is_current(&cipher.seal(&pool, &uri)));
        assert_eq!(cipher.open(&other, &sealed), Err(SealedUriError::Damaged));
        assert_eq!(Cipher::new("new").open(&pool, &sealed), Err(SealedUriError::OtherKey));
        assert_eq!(cipher.decrypt(&project("a"), &sealed), Err(CipherFailure::Damaged));
    }

    #[test]
    fn equal_bodies_are_encrypted_differently() {
        let cipher = Cipher::new("secret");

        assert_ne!(cipher.encrypt(&project("p"), b"hello"), cipher.encrypt(&project("p"), b"hello"));
    }

    #[test]
    fn a_body_that_another_implementation_encrypted_is_decrypted() {
        // Made by pyca/cryptography over OpenSSL from the same passphrase, project and plaintext.
        let encrypted = [
            0xa162_152c_6827_786b_u64,
            0x0001_0203_0405_0607,
            0x0809_0a0b_77ac_db96,
            0xf27f_d218_18a6_6e31,
            0x7d5e_43ee_1809_f999,
            0x5300_0000_0000_0000,
        ];
        let encrypted = encrypted.map(u64::to_be_bytes).concat();

        assert_eq!(Cipher::new("secret").decrypt(&project("p"), &encrypted[..41]), Ok(b"hello".to_vec()));
    }
}
