//! An `OpenID` provider that signs tokens, rotates its keys, and misbehaves as the test says.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use sukkal_domain::{JwtAlgorithm, JwtConfig};

use super::stub::{Reply, Request, Stub};

pub(crate) const AUDIENCE: &str = "sukkal";

/// How the provider answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Down,
    Hangs,
    Fails,
    RedirectsElsewhere,
    SendsNonsense,
    SendsTooMuch,
    SendsNoKeys,
    NamesAnotherIssuer,
}

/// A running provider.
pub(crate) struct StubProvider {
    pub(crate) stub: Stub,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    keys: Vec<(String, Ed25519KeyPair)>,
}

impl StubProvider {
    /// Starts a provider with the key `first`.
    pub(crate) fn start(mood: Mood) -> Self {
        let state = Arc::new(Mutex::new(State { mood, keys: vec![("first".to_owned(), new_key())] }));
        let shared = state.clone();
        let stub = Stub::start(move |request| shared.lock().unwrap_or_else(PoisonError::into_inner).reply(request));
        Self { stub, state }
    }

    pub(super) fn set_mood(&self, mood: Mood) {
        self.state.lock().unwrap().mood = mood;
    }

    pub(super) fn add_key(&self, id: &str) {
        self.state.lock().unwrap().keys.push((id.to_owned(), new_key()));
    }

    /// Withdraws all keys but the last one.
    pub(super) fn withdraw_old_keys(&self) {
        let mut state = self.state.lock().unwrap();
        let last = state.keys.len() - 1;
        state.keys.drain(..last);
    }

    /// Returns the configuration of a service that trusts this provider.
    pub(super) fn config(&self) -> JwtConfig {
        JwtConfig {
            issuer: self.stub.url.clone(),
            jwks: String::new(),
            audience: vec![AUDIENCE.to_owned()],
            algorithms: vec![JwtAlgorithm::EdDsa],
            project_claim: "project_id".to_owned(),
            roles_claim: "realm_access.roles".to_owned(),
            leeway_s: 0,
        }
    }

    /// Returns the document with the keys.
    pub(super) fn jwks(&self) -> Value {
        self.state.lock().unwrap().jwks()
    }

    /// Returns a token of this project, signed with a key.
    pub(crate) fn token(&self, key_id: &str, project: &str) -> String {
        self.token_until(key_id, project, SystemTime::now() + Duration::from_secs(3_600))
    }

    /// Returns a token that expires at this time. An empty id of a key is left out.
    pub(crate) fn token_until(&self, key_id: &str, project: &str, expires_at: SystemTime) -> String {
        let claims = json!({
            "iss": self.stub.url, "aud": AUDIENCE, "sub": "user-7", "project_id": project,
            "exp": expires_at.duration_since(UNIX_EPOCH).unwrap().as_secs_f64(),
            "realm_access": { "roles": ["producer"] },
        });
        let header =
            if key_id.is_empty() { json!({ "alg": "EdDSA" }) } else { json!({ "alg": "EdDSA", "kid": key_id }) };
        let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encode(&header), encode(&claims));
        let state = self.state.lock().unwrap();
        // A token that names an unknown key is signed with another one.
        let (_, key) = state.keys.iter().find(|(id, _)| id == key_id).unwrap_or(&state.keys[0]);
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes())))
    }

    /// Returns how often the keys were requested.
    pub(super) fn fetches(&self) -> usize {
        self.stub.count(&axum::http::Method::GET, "/keys")
    }
}

impl State {
    fn jwks(&self) -> Value {
        let key = |(id, pair): &(String, Ed25519KeyPair)| {
            let x = URL_SAFE_NO_PAD.encode(pair.public_key());
            json!({ "kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": id, "x": x })
        };
        json!({ "keys": self.keys.iter().map(key).collect::<Vec<_>>() })
    }

    fn reply(&self, request: &Request) -> Reply {
        let url = format!("http://{}", request.header("host"));
        let is_configuration = request.path_and_query == "/.well-known/openid-configuration";
        let issuer = if self.mood == Mood::NamesAnotherIssuer { "https://other.example.com" } else { &url };
        match self.mood {
            Mood::Well | Mood::NamesAnotherIssuer if is_configuration => {
                Reply::Json(200, json!({ "issuer": issuer, "jwks_uri": format!("{url}/keys") }))
            }
            Mood::Well | Mood::NamesAnotherIssuer => Reply::Json(200, self.jwks()),
            Mood::Down => Reply::Reset,
            Mood::Hangs => Reply::Hang,
            Mood::Fails => Reply::Json(500, self.jwks()),
            Mood::RedirectsElsewhere => Reply::Redirect(format!("{url}/keys")),
            Mood::SendsNonsense => Reply::Text(200, "<html>".to_owned()),
            Mood::SendsTooMuch => Reply::Text(200, " ".repeat(2 << 20)),
            Mood::SendsNoKeys if is_configuration => {
                Reply::Json(200, json!({ "issuer": url, "jwks_uri": format!("{url}/keys") }))
            }
            Mood::SendsNoKeys => Reply::Json(200, json!({ "keys": [{ "kty": "oct", "k": "AAAA" }] })),
        }
    }
}

fn new_key() -> Ed25519KeyPair {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap()
}
