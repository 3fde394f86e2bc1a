//! A Keystone that validates tokens, rotates, and misbehaves as the test says.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use axum::http::Method;
use serde_json::{Value, json};
use sukkal_domain::{KeystoneConfig, Secret};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::stub::{Reply, Request, Stub};

pub(crate) const PASSWORD: &str = "a password of the service user";

/// Returns the options of a server that asks the Keystone at this URL.
pub(crate) fn options(url: &str) -> [(&str, &str); 6] {
    [
        ("SUKKAL_AUTH__STRATEGIES", "keystone"),
        ("SUKKAL_KEYSTONE__AUTH_URL", url),
        ("SUKKAL_KEYSTONE__USERNAME", "sukkal"),
        ("SUKKAL_KEYSTONE__PASSWORD", PASSWORD),
        ("SUKKAL_KEYSTONE__USER_DOMAIN_NAME", "users"),
        ("SUKKAL_KEYSTONE__PROJECT_DOMAIN_NAME", "projects"),
    ]
}

/// How Keystone answers questions about tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    Well,
    Down,
    Hangs,
    /// Answers only if the token is valid.
    HangsForInvalid,
    Fails,
    Forbids,
    RedirectsElsewhere,
    /// Says that the token of the service user is not valid, whatever it is.
    RefusesService,
    SendsNonsense,
    SendsTooMuch,
    SendsNothing,
    DescribesAnotherToken,
    HasNoEnd,
    HasAnInvalidProject,
}

/// A running Keystone.
pub(crate) struct StubKeystone {
    pub(crate) stub: Stub,
    state: Arc<Mutex<State>>,
}

struct State {
    mood: Mood,
    password: String,
    logins: usize,
    /// Tokens of the service user that are valid.
    own: HashSet<String>,
    /// The descriptions of tokens of clients.
    tokens: HashMap<String, Value>,
    /// The trusts by their id, as they were requested.
    trusts: HashMap<String, Value>,
    /// The tokens for trusts, and the trust of each.
    trust_tokens: HashMap<String, String>,
}

impl StubKeystone {
    pub(crate) fn start() -> Self {
        let state = State {
            mood: Mood::Well,
            password: PASSWORD.to_owned(),
            logins: 0,
            own: HashSet::new(),
            tokens: HashMap::new(),
            trusts: HashMap::new(),
            trust_tokens: HashMap::new(),
        };
        let state = Arc::new(Mutex::new(state));
        let shared = state.clone();
        let stub = Stub::start(move |request| shared.lock().unwrap_or_else(PoisonError::into_inner).reply(request));
        Self { stub, state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_mood(&self, mood: Mood) {
        self.state().mood = mood;
    }

    pub(super) fn set_password(&self, password: &str) {
        password.clone_into(&mut self.state().password);
    }

    /// Makes all tokens of the service user invalid.
    pub(super) fn revoke_service(&self) {
        self.state().own.clear();
    }

    /// Makes the token of a client invalid.
    pub(super) fn revoke(&self, token: &str) {
        self.state().tokens.remove(token);
    }

    /// Returns the trusts by their id, as they were requested.
    pub(super) fn trusts(&self) -> HashMap<String, Value> {
        self.state().trusts.clone()
    }

    /// Makes a trust and its tokens invalid, as its owner can.
    pub(super) fn delete_trusts(&self) {
        let mut state = self.state();
        state.trusts.clear();
        state.trust_tokens.clear();
    }

    /// Issues a token with this description.
    pub(crate) fn issue(&self, token: &str, description: Value) {
        self.state().tokens.insert(token.to_owned(), description);
    }

    /// Returns how often the service user has logged in.
    pub(super) fn logins(&self) -> usize {
        self.stub.count(&Method::POST, "/v3/auth/tokens")
    }

    /// Returns how often Keystone was asked about a token.
    pub(super) fn validations(&self) -> usize {
        self.stub.count(&Method::GET, "/v3/auth/tokens")
    }

    pub(super) fn config(&self) -> KeystoneConfig {
        KeystoneConfig {
            auth_url: format!("{}/v3/", self.stub.url),
            www_authenticate_uri: "https://keystone.example.com".to_owned(),
            username: "sukkal".to_owned(),
            password: Secret::new(PASSWORD),
            user_domain_name: "users".to_owned(),
            project_name: "service".to_owned(),
            project_domain_name: "projects".to_owned(),
            service_token_roles: vec!["service".to_owned()],
        }
    }
}

impl State {
    fn reply(&mut self, request: &Request) -> Reply {
        let (path, query) = request.path_and_query.split_once('?').unwrap_or((&request.path_and_query, ""));
        match (&request.method, path) {
            (&Method::POST, "/v3/auth/tokens") if ![Mood::Down, Mood::Hangs].contains(&self.mood) => {
                self.log_in(request)
            }
            (&Method::GET, "/v3/auth/tokens") => self.describe(request, query),
            (&Method::POST, "/v3/OS-TRUST/trusts") if self.mood == Mood::Well => self.create_trust(request),
            (&Method::DELETE, path) if self.mood == Mood::Well => self.delete_trust(request, path),
            _ if self.mood == Mood::Hangs => Reply::Hang,
            _ => Reply::Reset,
        }
    }

    fn log_in(&mut self, request: &Request) -> Reply {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let with_scope = |scope: &Value| {
            json!({ "auth": {
                "identity": { "methods": ["password"], "password": { "user": {
                    "name": "sukkal", "domain": { "name": "users" }, "password": self.password,
                } } },
                "scope": scope,
            } })
        };
        let trust = &body["auth"]["scope"]["OS-TRUST:trust"]["id"];
        if let Some(trust) = trust.as_str().filter(|id| self.trusts.contains_key(*id))
            && body == with_scope(&json!({ "OS-TRUST:trust": { "id": trust } }))
        {
            let token = format!("trust-token-{}", self.trust_tokens.len());
            self.trust_tokens.insert(token.clone(), trust.to_owned());
            return Reply::Token(201, token, described("u", Some("shop"), &["member"], Duration::from_secs(3_600)));
        }
        let expected = with_scope(&json!({ "project": { "name": "service", "domain": { "name": "projects" } } }));
        if body != expected {
            return Reply::Json(401, json!({ "error": { "code": 401 } }));
        }
        self.logins += 1;
        let token = format!("own-{}", self.logins);
        self.own.insert(token.clone());
        Reply::Token(201, token, described("service-user", Some("service"), &["service"], Duration::from_secs(3_600)))
    }

    fn create_trust(&mut self, request: &Request) -> Reply {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let owner =
            self.tokens.get(request.header("x-auth-token")).map(|document| document["token"]["user"]["id"].clone());
        // Keystone lets users create only trusts of their own, and only with roles that they have.
        if owner != Some(body["trust"]["trustor_user_id"].clone()) || body["trust"]["roles"] == json!([]) {
            return Reply::Json(403, json!({ "error": { "code": 403 } }));
        }
        let id = format!("trust-{}", self.trusts.len());
        self.trusts.insert(id.clone(), body["trust"].clone());
        Reply::Json(201, json!({ "trust": { "id": id } }))
    }

    fn delete_trust(&mut self, request: &Request, path: &str) -> Reply {
        let id = path.strip_prefix("/v3/OS-TRUST/trusts/").unwrap_or_default();
        if self.trust_tokens.get(request.header("x-auth-token")).map(String::as_str) != Some(id) {
            return Reply::Json(403, json!({ "error": { "code": 403 } }));
        }
        self.trusts.remove(id);
        Reply::Json(204, json!({}))
    }

    fn describe(&self, request: &Request, query: &str) -> Reply {
        let token = request.header("x-subject-token").to_owned();
        let description = self.tokens.get(&token).cloned();
        match self.mood {
            Mood::Down => return Reply::Reset,
            Mood::Hangs => return Reply::Hang,
            Mood::Fails => return Reply::Json(500, json!({})),
            Mood::Forbids => return Reply::Json(403, json!({})),
            Mood::RedirectsElsewhere => return Reply::Redirect(format!("http://{}/elsewhere", request.header("host"))),
            Mood::SendsNonsense => return Reply::Text(200, "<html>".to_owned()),
            Mood::SendsTooMuch => return Reply::Text(200, " ".repeat(2 << 20)),
            Mood::SendsNothing => return Reply::Json(200, json!({})),
            _ => {}
        }
        if self.mood == Mood::RefusesService || !self.own.contains(request.header("x-auth-token")) {
            return Reply::Json(401, json!({ "error": { "code": 401 } }));
        }
        let Some(mut description) = description else {
            if self.mood == Mood::HangsForInvalid {
                return Reply::Hang;
            }
            return Reply::Json(404, json!({ "error": { "code": 404 } }));
        };
        let end = description["token"]["expires_at"].as_str().unwrap();
        let is_over = OffsetDateTime::parse(end, &Rfc3339).unwrap() <= SystemTime::now();
        if is_over && !query.split('&').any(|parameter| parameter == "allow_expired=1") {
            return Reply::Json(404, json!({ "error": { "code": 404 } }));
        }
        match self.mood {
            Mood::DescribesAnotherToken => return Reply::Token(200, "another".to_owned(), description),
            Mood::HasNoEnd => description["token"]["expires_at"] = json!("never"),
            Mood::HasAnInvalidProject => description["token"]["project"]["id"] = json!("a\nb"),
            _ => {}
        }
        Reply::Token(200, token, description)
    }
}

/// Returns the description of a token that is valid for this time.
pub(crate) fn described(user: &str, project: Option<&str>, roles: &[&str], valid_for: Duration) -> Value {
    described_until(user, project, roles, SystemTime::now() + valid_for)
}

/// Returns the description of a token that expires at this time.
pub(crate) fn described_until(user: &str, project: Option<&str>, roles: &[&str], expires_at: SystemTime) -> Value {
    let domain = json!({ "id": "default", "name": "Default" });
    let mut description = json!({ "token": {
        "methods": ["password"],
        "issued_at": "2020-01-01T00:00:00.000000Z",
        "expires_at": OffsetDateTime::from(expires_at).format(&Rfc3339).unwrap(),
        "audit_ids": ["x"],
        "user": { "id": user, "name": "somebody", "domain": domain, "password_expires_at": null },
        "roles": roles.iter().map(|role| json!({ "id": format!("id-{role}"), "name": role })).collect::<Vec<_>>(),
    } });
    if let Some(project) = project {
        description["token"]["project"] = json!({ "id": project, "name": project, "domain": domain });
    }
    description
}
