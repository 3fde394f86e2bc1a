//! Tokens: API keys that the service itself issues. A token is `skt_`, its id, `_` and its secret.
//!
//! Stores keep a hash of the secret. The secret is 256 random bits, so its SHA-256 needs neither a
//! salt nor stretching.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use percent_encoding::percent_decode_str;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::ProjectId;
use super::random_id::random_id;

/// The start of every token.
pub const TOKEN_PREFIX: &str = "skt_";
/// Length of a secret in bytes.
const SECRET_BYTES: usize = 32;
/// Length of a secret as text.
const SECRET_CHARS: usize = 43;
/// Length of the id of a token as text.
const ID_CHARS: usize = 36;
/// Length of a token as text.
const TOKEN_CHARS: usize = TOKEN_PREFIX.len() + ID_CHARS + 1 + SECRET_CHARS;

random_id! {
    /// Id of a token: a random UUID. Tokens are listed in the order of their ids.
    TokenId
}

/// A token as its holder has it. Neither its text nor its secret is shown by `Debug`.
#[derive(Clone)]
pub struct Token {
    id: TokenId,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

/// The SHA-256 of the secret of a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TokenHash([u8; SECRET_BYTES]);

/// A token that is to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// Id of the token.
    pub id: TokenId,
    /// What its holder may do.
    pub grant: TokenGrant,
    /// Hash of its secret.
    pub hash: TokenHash,
    /// Time to live in seconds; `None` if the token does not expire.
    pub ttl_s: Option<u64>,
}

/// What the holder of a token may do, and the name that its creator has given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenGrant {
    /// Describes the token for people.
    pub name: String,
    /// The only project on whose queues the holder may work; `None` for all projects.
    pub project: Option<ProjectId>,
    /// The roles of the holder.
    pub roles: Vec<String>,
}

/// A token as a store returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// Id of the token.
    pub id: TokenId,
    /// What its holder may do.
    pub grant: TokenGrant,
    /// Hash of its secret.
    pub hash: TokenHash,
    /// Time of its creation by the store's clock, in seconds since 1970.
    pub created_s: u64,
    /// Time of its expiry by the store's clock, in seconds since 1970; `None` if it does not
    /// expire.
    pub expires_s: Option<u64>,
    /// Time from the read to the expiry; `None` if the token does not expire.
    pub life_left: Option<Duration>,
}

impl Token {
    /// Returns a new random token.
    #[must_use]
    pub fn random() -> Self {
        let mut secret = Zeroizing::new([0; SECRET_BYTES]);
        SystemRandom::new().fill(&mut *secret).expect("the operating system has random bytes");
        Self { id: TokenId::random(), secret }
    }

    /// Parses the text of a token. No token has another form.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(TOKEN_PREFIX).filter(|_| text.len() == TOKEN_CHARS)?;
        let (id, secret) = rest.split_once('_')?;
        let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
        let length = URL_SAFE_NO_PAD.decode_slice(secret, &mut *bytes).ok()?;
        Some(Self { id: TokenId::parse(id)?, secret: bytes }).filter(|_| length == SECRET_BYTES)
    }

    /// Returns the id.
    #[must_use]
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// Returns the text for its holder.
    #[must_use]
    pub fn reveal(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(TOKEN_CHARS));
        text.push_str(TOKEN_PREFIX);
        text.push_str(&self.id.to_string());
        text.push('_');
        URL_SAFE_NO_PAD.encode_string(*self.secret, &mut text);
        text
    }

    /// Returns the hash of the secret.
    #[must_use]
    pub fn hash(&self) -> TokenHash {
        let hash = digest(&SHA256, &*self.secret);
        TokenHash(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Returns whether this hash is that of the secret. The comparison takes constant time.
    #[must_use]
    pub fn matches(&self, hash: &TokenHash) -> bool {
        self.hash().0.ct_eq(&hash.0).into()
    }
}

/// Returns the path of a URL without the tokens that are in it by mistake, for logs.
#[must_use]
pub fn without_tokens(path: &str) -> Cow<'_, str> {
    if !path.contains(TOKEN_PREFIX) && !path.contains('%') {
        return path.into();
    }
    let hidden = |segment: &str| match segment.find(TOKEN_PREFIX) {
        Some(start) => format!("{}{TOKEN_PREFIX}...", &segment[..start]),
        None if percent_decode_str(segment).decode_utf8_lossy().contains(TOKEN_PREFIX) => format!("{TOKEN_PREFIX}..."),
        None => segment.to_owned(),
    };
    path.split('/').map(hidden).collect::<Vec<_>>().join("/").into()
}

impl TokenHash {
    /// Returns the hash with these bytes, as a store keeps it.
    #[must_use]
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({})", self.id)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_from_its_own_text() {
        let token = Token::random();
        let text = token.reveal();

        let read = Token::parse(&text).unwrap();

        assert_eq!((read.id(), read.hash()), (token.id(), token.hash()));
        assert_eq!(text.len(), TOKEN_CHARS);
        assert!(token.matches(&read.hash()) && !token.matches(&Token::random().hash()));
        assert_ne!(Token::random().reveal(), Token::random().reveal());
    }

    #[test]
    fn a_text_of_another_form_is_no_token() {
        let text = Token::random().reveal();
        let (start, _) = text.split_at(text.len() - 1);
        // The last character has only four bits, so each token has one text.
        let ambiguous = format!("{start}B");
        let upper = text.replacen(&text[4..40], &text[4..40].to_uppercase(), 1).replace("SKT", "skt");
        let plain = text.replacen('_', "-", 1);

        let long = "skt_".repeat(10_000);
        for wrong in ["", "skt_", start, &ambiguous, &plain, &format!("{}A", *text), &format!(" {start}"), &long] {
            assert!(Token::parse(wrong).is_none(), "{wrong}");
        }
        assert!(upper == *text || Token::parse(&upper).is_none());
        assert!(Token::parse(&"é".repeat(TOKEN_CHARS / 2)).is_none());
    }

    #[test]
    fn a_path_is_shown_without_tokens() {
        let text = Token::random().reveal();
        for (path, shown) in [
            ("/v2/queues/a%20b", "/v2/queues/a%20b".to_owned()),
            ("/v2/tokens/TOKEN", "/v2/tokens/skt_...".to_owned()),
            ("/v2/queues/TOKEN/messages/xTOKEN", "/v2/queues/skt_.../messages/xskt_...".to_owned()),
            ("/v2/tokens/%73kt%5fTOKE", "/v2/tokens/skt_...".to_owned()),
        ] {
            assert_eq!(without_tokens(&path.replace("TOKEN", &text)), shown);
        }
    }

    #[test]
    fn debug_output_has_no_secret_and_no_hash() {
        let token = Token::random();
        let secret = token.reveal()[TOKEN_CHARS - SECRET_CHARS..].to_owned();

        let shown = format!("{token:?} {:?}", token.hash());

        assert!(!shown.contains(&secret) && shown.ends_with("TokenHash(hidden)"), "{shown}");
    }
}
