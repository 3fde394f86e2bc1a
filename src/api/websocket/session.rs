//! What a connection has proved, and the HTTP requests that its frames become.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::{HeaderMap, HeaderValue};
use serde_json::Value;
use uuid::Uuid;

use super::action::{Action, PATH};
use super::reply::Outcome;
use crate::api::middleware::authentication::{Proof, SERVICE_TOKEN, presented_token};
use crate::api::middleware::identity::{self, PROJECT_ID, ROLES, USER_ID};
use crate::api::middleware::metering::PathTemplate;
use crate::api::server::connection::Connection;
use crate::api::service::Settings;
use crate::api::stream_credential::StreamCredential;
use crate::auth::{Identity, instant_of};
use crate::authentication::Sender;
use crate::wire::Error;
use crate::wire::frame::FrameRequest;
use sukkal_domain::ProjectId;
use sukkal_domain::queue_id::PROJECT_ID_CHARS_MAX;

const URL_SIGNATURE: &str = "URL-Signature";
/// The headers of a request in a frame that become those of the HTTP request, as clients spell
/// them.
const HEADERS: [&str; 4] = ["Durability", "traceparent", "tracestate", "Idempotency-Key"];
/// The headers of a signature. Two of them may be lists.
const SIGNATURE_HEADERS: [&str; 4] = [URL_SIGNATURE, "URL-Paths", "URL-Methods", "URL-Expires"];
/// The headers with a token, and with that of a service that calls on behalf of its owner.
const TOKEN_HEADERS: [&str; 3] = ["X-Auth-Token", "Authorization", "X-Service-Token"];

/// A connection and what is known about its client.
pub(super) struct Session {
    connection: Arc<Connection>,
    /// The headers of the upgrade that all requests have: the host and the origin, and the identity
    /// of the client if a proxy states it.
    headers: HeaderMap,
    /// Whether a trusted proxy states who the client is. Then the headers in frames, which come
    /// from the client itself, are not believed.
    is_proxied: bool,
    /// Whether a request needs a credential that the connection does not have yet.
    is_unknown: bool,
    /// The project of all requests; `None` if each request names its own.
    project: Option<ProjectId>,
    /// The headers with the token that the connection has proved; empty if it has not proved one.
    tokens: HeaderMap,
    /// The credential of the token.
    credential: Option<StreamCredential>,
}

impl Session {
    /// Begins the session of a connection, with the credential of the request that opens it.
    pub(super) fn begin(
        request: &Request,
        proof: Result<Proof, Error>,
        connection: Arc<Connection>,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let upgrade_headers = request.headers();
        let mut headers = HeaderMap::new();
        let mut copy = |names: &[HeaderName]| {
            for name in names {
                headers.extend(upgrade_headers.get_all(name).iter().map(|value| (name.clone(), value.clone())));
            }
        };
        copy(&[HOST, ORIGIN]);
        let proof = match proof {
            Ok(proof) => Some(proof),
            // The client authenticates later.
            Err(Error::Unauthenticated { .. })
                if presented_token(upgrade_headers, &settings.authenticator).is_none() =>
            {
                None
            }
            Err(error) => return Err(error),
        };
        let is_unknown = proof.is_none();
        // A signature has not been verified yet.
        if matches!(proof, Some(Proof::Sender(_))) {
            connection.note_known();
        }
        let is_proxied = matches!(proof, Some(Proof::Sender(Sender::ProxyClient(_))));
        let mut project = None;
        if is_proxied {
            copy(&PROJECT_ID);
            copy(&[ROLES.clone(), USER_ID.clone()]);
            project = identity::project(upgrade_headers, None)?.map(|(project, _warning)| project);
        }
        let mut session =
            Self { connection, headers, is_proxied, is_unknown, project, tokens: HeaderMap::new(), credential: None };
        match proof {
            // A signature is for one request, and this one has no signed path.
            Some(Proof::Signature(_)) => return Err(Error::NotSigned),
            Some(Proof::Sender(Sender::Identified(identity))) => {
                let tokens = TOKEN_HEADERS
                    .into_iter()
                    .filter_map(|name| Some((name_of(name), upgrade_headers.get(name)?.clone())));
                session.prove(tokens.collect(), &identity, settings);
            }
            _ => {}
        }
        Ok(session)
    }

    /// Records that the client has proved who it is, with this token.
    fn prove(&mut self, tokens: HeaderMap, identity: &Identity, settings: &Settings) {
        let expiry = identity.expires_at.and_then(instant_of);
        self.credential = Some(StreamCredential::of(&tokens, settings, expiry));
        (self.tokens, self.project, self.is_unknown) = (tokens, identity.project.clone(), false);
    }

    /// Records that a request has authenticated the connection. Returns whether its project has
    /// changed.
    pub(super) fn authenticated(&mut self, request: &FrameRequest, identity: &Identity, settings: &Settings) -> bool {
        let before = self.project.clone();
        self.prove(tokens_of(request), identity, settings);
        self.project != before
    }

    /// Returns whether a request needs a credential that the connection does not have yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// Returns whether the client has proved who it is, with a credential or with a signature that
    /// allowed a request, if the service requires that.
    pub(super) fn is_known(&self) -> bool {
        self.connection.is_known()
    }

    /// Returns the project of the connection, or one that stands for all connections without a
    /// project.
    pub(super) fn project_or_none(&self) -> ProjectId {
        self.project.clone().unwrap_or_else(|| ProjectId::new("-").expect("it is not empty"))
    }

    /// Returns the project whose rate a refused request uses.
    pub(super) fn counted_project(&self, frame: Option<&FrameRequest>) -> ProjectId {
        // Only a client that may use any project can name the one to charge.
        let may_name = self.project.is_none() && !self.is_unknown && !self.is_proxied;
        let named = frame.filter(|_| may_name).and_then(|frame| frame.header("X-Project-ID"));
        // The limit for requests about queues bounds what the rates of projects remember.
        let is_short = |name: &&str| name.chars().count() <= PROJECT_ID_CHARS_MAX;
        let named = named.as_ref().and_then(Value::as_str).filter(is_short).and_then(ProjectId::new);
        named.unwrap_or_else(|| self.project_or_none())
    }

    /// Returns whether the client has proved who it is.
    pub(super) fn is_proved(&self) -> bool {
        !self.tokens.is_empty()
    }

    /// Completes when the credential has expired or is not valid any more.
    pub(super) async fn ended(&mut self) {
        match &mut self.credential {
            Some(credential) => credential.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Returns the HTTP request that is equivalent to a request in a frame, or why it is refused.
    pub(super) fn http_request(&self, action: &Action, frame: &FrameRequest) -> Result<Request, Outcome> {
        if let Some(repeated) = frame.repeated_header() {
            return Err(Outcome::repeated_header(repeated));
        }
        let mut headers = self.headers.clone();
        let mut add = |spelling: &str, value: Option<Value>| {
            let Some(value) = value else { return Ok(()) };
            let value = text_of(&value).and_then(|text| HeaderValue::try_from(text).ok());
            headers.insert(name_of(spelling), value.ok_or_else(|| Outcome::bad_header(spelling))?);
            Ok::<_, Outcome>(())
        };
        for spelling in HEADERS {
            add(spelling, frame.header(spelling))?;
        }
        let random = || action.authenticates().then(|| Uuid::new_v4().to_string().into());
        add("Client-ID", frame.header("Client-ID").or_else(random))?;
        let project = frame.header("X-Project-ID");
        if action.authenticates() {
            let tokens = tokens_of(frame);
            if tokens.keys().all(|name| *name == SERVICE_TOKEN) {
                return Err(Outcome::bad_header("X-Auth-Token"));
            }
            // A token may be for all projects.
            if !self.is_proxied {
                add("X-Project-ID", project)?;
            }
            headers.extend(tokens);
            return self.build(action, action.path_of(frame), headers);
        }
        if !self.is_proxied {
            add("X-Roles", frame.header("X-Roles"))?;
        }
        if let Some(own) = &self.project
            && project.as_ref().and_then(Value::as_str) != Some(own.as_str())
        {
            return Err(Outcome::error_text(403, "Not authenticated."));
        }
        if !self.is_proxied || self.is_proved() {
            add("X-Project-ID", project)?;
        }
        if self.is_proved() {
            headers.extend(self.tokens.clone());
        } else if frame.header(URL_SIGNATURE).is_some() {
            if !action.is_signable {
                return Err(Outcome::not_authenticated());
            }
            for spelling in SIGNATURE_HEADERS {
                add(spelling, frame.header(spelling))?;
            }
        }
        self.build(action, action.path_of(frame), headers)
    }

    /// Returns an HTTP request that stands for a refused one.
    pub(super) fn refused_request(&self, action: &Action, frame: Option<&FrameRequest>) -> Request {
        let path = frame.filter(|frame| frame.has_objects()).map(|frame| action.path_of(frame));
        let build = |path: String| self.build(action, path, self.headers.clone());
        path.and_then(|path| build(path).ok()).unwrap_or_else(|| build(PATH.to_owned()).unwrap_or_default())
    }

    fn build(&self, action: &Action, path: String, headers: HeaderMap) -> Result<Request, Outcome> {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = action.method.clone();
        *request.uri_mut() = path.try_into().map_err(|_| Outcome::error_text(400, "The request is too large."))?;
        *request.headers_mut() = headers;
        request.extensions_mut().insert(PathTemplate(action.path));
        self.connection.describe(request.extensions_mut());
        Ok(request)
    }
}

/// Returns the headers of a request that authenticates that have its token.
fn tokens_of(frame: &FrameRequest) -> HeaderMap {
    let tokens = TOKEN_HEADERS.into_iter().filter_map(|spelling| {
        let token = frame.header(spelling)?;
        let mut value = HeaderValue::try_from(token.as_str()?).ok()?;
        value.set_sensitive(true);
        Some((name_of(spelling), value))
    });
    tokens.collect()
}

/// Returns the text of a header. A list of texts is separated by commas.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let texts: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
            Some(texts?.join(","))
        }
        _ => None,
    }
}

fn name_of(spelling: &str) -> HeaderName {
    HeaderName::try_from(spelling).expect("it is the name of a header")
}
