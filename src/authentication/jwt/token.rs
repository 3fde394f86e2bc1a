//! The parts of a signed token (RFC 7515): `HEADER.CLAIMS.SIGNATURE`, each in base64url.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use sukkal_domain::JwtAlgorithm;

/// The types of tokens that give access. Others, such as those for a logout, are for other
/// purposes.
const TYPES: [&str; 4] = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"];

/// A token whose signature is not verified yet.
pub(super) struct Token<'t> {
    pub(super) algorithm: JwtAlgorithm,
    /// The id of the key, if the token names one.
    pub(super) key_id: Option<String>,
    /// The bytes that are signed.
    pub(super) signed: &'t [u8],
    pub(super) signature: Vec<u8>,
    claims: &'t str,
}

impl<'t> Token<'t> {
    /// Reads the header. No key and no address in it is used. Returns why the token is not
    /// accepted.
    pub(super) fn parse(text: &'t str, algorithms: &[JwtAlgorithm]) -> Result<Self, String> {
        let malformed = || "the token is not a signed JSON Web Token".to_owned();
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) =
            signed.split_once('.').filter(|(_, claims)| !claims.contains('.')).ok_or_else(malformed)?;
        let header = object(header).ok_or_else(malformed)?;
        if header.contains_key("crit") {
            return Err("the token has a header crit, whose extensions are not supported".to_owned());
        }
        let name = header.get("alg").and_then(Value::as_str).ok_or_else(malformed)?;
        let algorithm = JwtAlgorithm::named(name).filter(|algorithm| algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or("the algorithm of the token's signature is not accepted")?;
        let kind = header.get("typ").map(|kind| kind.as_str().unwrap_or_default().to_ascii_lowercase());
        if kind.is_some_and(|kind| !TYPES.contains(&kind.as_str())) {
            return Err("the header typ of the token must be JWT or at+jwt, if there is one".to_owned());
        }
        let key_id = match header.get("kid") {
            None => None,
            Some(Value::String(id)) => Some(id.clone()),
            Some(_) => return Err(malformed()),
        };
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?;
        Ok(Self { algorithm, key_id, signed: signed.as_bytes(), signature, claims })
    }

    /// Returns the claims, or `None` if they are not an object.
    pub(super) fn claims(&self) -> Option<Map<String, Value>> {
        object(self.claims)
    }
}

fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::vectors;
    use super::*;

    const ACCEPTED: [JwtAlgorithm; 2] = [JwtAlgorithm::Rs256, JwtAlgorithm::EdDsa];

    fn refusal(token: &str) -> Option<String> {
        Token::parse(token, &ACCEPTED).err()
    }

    fn with_header(header: &Value) -> String {
        format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode(header.to_string()))
    }

    #[test]
    fn only_listed_algorithms_are_accepted() {
        assert_eq!(refusal(vectors::RS256), None);
        assert_eq!(refusal(&with_header(&json!({ "alg": "Ed25519" }))), None);
        for token in [vectors::UNSIGNED, vectors::HS256, vectors::ES256] {
            assert!(refusal(token).unwrap().starts_with("the algorithm of the token's signature"), "{token}");
        }
        for name in ["None", "NONE", "rs256", "RS256 ", "HS256", "HS512", "ES512", ""] {
            assert!(refusal(&with_header(&json!({ "alg": name }))).is_some(), "{name}");
        }
    }

    #[test]
    fn headers_that_lead_to_other_keys_are_ignored_and_extensions_are_refused() {
        for (header, is_accepted) in [
            (
                json!({ "alg": "RS256", "jku": "http://127.0.0.1:1/", "x5u": "http://127.0.0.1:1/", "jwk": {}, "x5c": [] }),
                true,
            ),
            (json!({ "alg": "RS256", "typ": "JWT" }), true),
            (json!({ "alg": "RS256", "typ": "AT+jwt" }), true),
            (json!({ "alg": "RS256", "typ": "logout+jwt" }), false),
            (json!({ "alg": "RS256", "typ": 1 }), false),
            (json!({ "alg": "RS256", "kid": 1 }), false),
            (json!({ "alg": "RS256", "crit": ["exp"] }), false),
            (json!({ "alg": "RS256", "crit": null }), false),
            (json!({ "alg": "RS256", "crit": [] }), false),
            (json!({ "typ": "JWT" }), false),
            (json!(["RS256"]), false),
        ] {
            assert_eq!(refusal(&with_header(&header)).is_none(), is_accepted, "{header}");
        }
    }

    #[test]
    fn malformed_tokens_are_refused() {
        let (signed, _) = vectors::RS256.rsplit_once('.').unwrap();
        let deep = format!("{}.e30.AAAA", URL_SAFE_NO_PAD.encode("[".repeat(10_000)));
        for token in ["", ".", "..", "...", "a.b.c", "e30.e30.e30", signed, &format!("{}.", vectors::RS256), &deep] {
            assert!(refusal(token).is_some(), "{token}");
        }
        // The spelling of base64 is unique: no padding, no other alphabet, no bits after the end.
        let header = URL_SAFE_NO_PAD.encode(json!({ "alg": "RS256" }).to_string());
        assert_eq!(refusal(&format!("{header}.e30.AA")), None);
        for signature in ["AA==", "A", "A+", "AB", "AA\n", "ä"] {
            assert!(refusal(&format!("{header}.e30.{signature}")).is_some(), "{signature:?}");
        }
    }
}
