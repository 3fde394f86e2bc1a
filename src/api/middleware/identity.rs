//! Identifies the caller of a request whose sender is known: by the credential of the request, and
//! by its headers, or by the query of an event stream or of a pre-signed URL.

use std::borrow::Cow;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};

use super::own_host;
use crate::api::service::Settings;
use crate::auth::{Client, Identity};
use crate::authentication::{Peer, Sender};
use crate::wire::Error;
use crate::wire::error::{ROLES_BYTES_MAX, ROLES_MAX};
use crate::wire::query::{self, Ambiguous};
use sukkal_domain::warning::{NameKind, letters, shown};
use sukkal_domain::{ClientId, ProjectId, Warning};

/// Identifies a request that must take effect only once
/// (draft-ietf-httpapi-idempotency-key-header).
pub(in crate::api) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The durability that a post requires, and in the response the one reached.
pub(in crate::api) static DURABILITY: HeaderName = HeaderName::from_static("durability");
pub(in crate::api) static CLIENT_ID: HeaderName = HeaderName::from_static("client-id");
/// The headers that can name the project, in order of precedence.
pub(in crate::api) static PROJECT_ID: [HeaderName; 3] = [
    HeaderName::from_static("x-project-id"),
    HeaderName::from_static("x-tenant-id"),
    HeaderName::from_static("x-tenant"),
];
/// The spelling of these headers in error messages and warnings.
const PROJECT_ID_SPELLING: [&str; 3] = ["X-Project-ID", "X-Tenant-Id", "X-Tenant"];
pub(in crate::api) static ROLES: HeaderName = HeaderName::from_static("x-roles");
pub(in crate::api) static USER_ID: HeaderName = HeaderName::from_static("x-user-id");
/// Query parameters for clients that cannot set headers.
const CLIENT_PARAMETER: &str = "client_id";
pub(super) const PROJECT_PARAMETER: &str = "project_id";

/// Returns the client that sent a request. `query` is the query of a request whose query may name
/// the client and the project if the headers do not.
pub(super) fn caller(
    headers: &HeaderMap,
    query: Option<&str>,
    settings: &Settings,
    sender: Sender,
) -> Result<(Client, Vec<Warning>), Error> {
    // A page cannot add a credential to the requests of a browser.
    let is_proved = matches!(sender, Sender::Identified(_));
    let may_be_unnamed = || is_proved || !own_host::may_be_foreign(headers, settings);
    let id = client(headers, query, settings, may_be_unnamed)?;
    let missing = || Error::ProjectMissing { query_counts: query.is_some() };
    match sender {
        Sender::Anybody(certificate) => {
            let default =
                || settings.default_project.clone().filter(|_| may_be_unnamed()).map(|project| (project, None));
            let (project, warning) = project(headers, query)?.or_else(default).ok_or_else(missing)?;
            let roles = roles(headers)?;
            let identity = certificate.map(|subject| stated_identity(subject.to_string(), &project, &roles));
            let warnings = warning.into_iter().chain(misspelled(headers)).collect();
            Ok((Client { project, id, roles, identity }, warnings))
        }
        Sender::ProxyClient(proxy) => {
            // The query is that of the client, whatever the proxy allows it.
            let missing = Error::ProjectMissing { query_counts: false };
            let (project, warning) = project(headers, None)?.ok_or(missing)?;
            let (subject, roles) = (proxy_subject(headers, &proxy), roles(headers)?);
            let identity = Some(stated_identity(subject, &project, &roles));
            Ok((Client { project, id, roles, identity }, warning.into_iter().collect()))
        }
        Sender::Identified(identity) => {
            let (project, warning) = match &identity.project {
                Some(own) => (own.clone(), other_project(headers, query, own)),
                None => project(headers, query)?.ok_or_else(missing)?,
            };
            let lacks = |role: &str| !role.is_empty() && !identity.roles.iter().any(|own| own == role);
            let names_other_roles = roles(headers).is_ok_and(|roles| roles.iter().any(|role| lacks(role)));
            let warnings = warning.into_iter().chain(names_other_roles.then_some(Warning::RolesIgnored)).collect();
            Ok((Client { project, id, roles: identity.roles.clone(), identity: Some(Arc::new(identity)) }, warnings))
        }
    }
}

/// Returns a warning if `X-Project-ID`, `X-Tenant-Id` or the query names another project. An empty
/// one names none, and the command line names its default in `X-Tenant`.
fn other_project(headers: &HeaderMap, query: Option<&str>, project: &ProjectId) -> Option<Warning> {
    let names_other = |name| {
        headers.get(name).is_some_and(|named| !named.is_empty() && named.as_bytes() != project.as_str().as_bytes())
    };
    let mut names = PROJECT_ID.iter().zip(PROJECT_ID_SPELLING).take(2);
    let in_headers = names.find(|(name, _)| names_other(*name)).map(|(_, spelling)| spelling);
    let in_query = parameter(query, PROJECT_PARAMETER, || Error::ProjectParameter).ok().flatten();
    let is_other = in_query.is_some_and(|named| named != project.as_str());
    in_headers.or(is_other.then_some(PROJECT_PARAMETER)).map(|named| Warning::ProjectIgnored { named })
}

/// Returns the roles in the headers.
fn roles(headers: &HeaderMap) -> Result<Vec<String>, Error> {
    let Some(roles) = headers.get(&ROLES) else { return Ok(Vec::new()) };
    // A rule may refuse a role, so none of them may be ignored.
    let roles = str::from_utf8(roles.as_bytes()).map_err(|_| Error::RolesInvalid)?;
    if roles.len() > ROLES_BYTES_MAX || roles.split(',').count() > ROLES_MAX {
        return Err(Error::TooManyRoles);
    }
    Ok(roles.split(',').map(|role| role.trim().to_owned()).collect())
}

/// Returns the identity of a sender whose project and roles are in the headers, which are believed.
fn stated_identity(subject: String, project: &ProjectId, roles: &[String]) -> Arc<Identity> {
    Arc::new(Identity { subject, project: Some(project.clone()), roles: roles.to_owned(), expires_at: None })
}

/// Returns the user that a proxy names, or the proxy by its certificate or its address.
fn proxy_subject(headers: &HeaderMap, proxy: &Peer) -> String {
    let user = headers.get(&USER_ID).filter(|user| !user.is_empty());
    match user {
        Some(user) => String::from_utf8_lossy(user.as_bytes()).into_owned(),
        None => match proxy.subject() {
            Some(certificate) => format!("a client of the proxy {certificate}"),
            None => format!("a client of the proxy {}", proxy.address),
        },
    }
}

/// Returns a warning about each other spelling of a header that identifies the caller, if a default
/// takes the place of that header.
fn misspelled(headers: &HeaderMap) -> Vec<Warning> {
    let has_project = PROJECT_ID.iter().any(|name| headers.contains_key(name));
    let missing = [(has_project, "X-Project-ID"), (headers.contains_key(&CLIENT_ID), "Client-ID")];
    let missing = missing.into_iter().filter(|(is_there, _)| !is_there);
    let word = |name: &str| letters(name).skip_while(|letter| *letter == 'x').collect::<String>();
    let is_meant = |name: &str, meant: &str| name == meant || meant == "projectid" && name == "project";
    let misspelling = |(_, meant): (bool, &'static str)| {
        let other = headers.keys().find(|name| is_meant(&word(name.as_str()), &word(meant)))?;
        Some(Warning::Unknown { what: NameKind::Header, name: shown(other.as_str()), nearest: Some(meant) })
    };
    missing.filter_map(misspelling).collect()
}

/// Returns warnings about parameters that identify the caller and have no effect, because the
/// headers do. `query` is as in [`caller`].
pub(super) fn beside_headers(headers: &HeaderMap, query: Option<&str>) -> Vec<Warning> {
    let Some(query) = query else { return Vec::new() };
    let project = PROJECT_ID.iter().zip(PROJECT_ID_SPELLING).find(|(name, _)| headers.contains_key(*name));
    let client = headers.contains_key(&CLIENT_ID).then_some((CLIENT_PARAMETER, "Client-ID"));
    let in_both = [project.map(|(_, spelling)| (PROJECT_PARAMETER, spelling)), client].into_iter().flatten();
    let in_query = |name: &str| query::parameters(query).any(|(parameter, _)| parameter == name);
    let ignored = in_both.filter(|(name, _)| in_query(name));
    ignored.map(|(name, other)| Warning::Beside { name, other }).collect()
}

/// Returns the project of a request: the one that the headers name, else the one that the query
/// names.
pub(in crate::api) fn project(
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Option<(ProjectId, Option<Warning>)>, Error> {
    if let Some(named) = project_of_headers(headers)? {
        return Ok(Some(named));
    }
    let invalid = || Error::ProjectParameter;
    match parameter(query, PROJECT_PARAMETER, invalid)? {
        // A header cannot contain line breaks either.
        Some(project) if project.contains(char::is_control) => Err(invalid()),
        Some(project) => Ok(ProjectId::new(&project).map(|project| (project, None))),
        None => Ok(None),
    }
}

/// Returns the project that the headers name, if they name one.
///
/// Published clients send several of the headers with different values. The first header of
/// [`PROJECT_ID`] counts, and the response gets a warning.
fn project_of_headers(headers: &HeaderMap) -> Result<Option<(ProjectId, Option<Warning>)>, Error> {
    let (mut used, mut differ) = (None, false);
    for (name, spelling) in PROJECT_ID.iter().zip(PROJECT_ID_SPELLING) {
        if let Some(project) = headers.get(name) {
            let (_, first) = used.get_or_insert((spelling, project));
            differ |= *first != project;
        }
    }
    let Some((used, project)) = used else { return Ok(None) };
    // A lossy conversion could turn two different ids that are not UTF-8 into the same project.
    let project = str::from_utf8(project.as_bytes()).map_err(|_| Error::ProjectInvalid)?;
    let project = ProjectId::new(project).ok_or(Error::ProjectEmpty)?;
    Ok(Some((project, differ.then_some(Warning::ProjectsDiffer { used }))))
}

/// Returns the id of the client. `may_be_unnamed` says whether the request may get a random one, if
/// ids are optional.
fn client(
    headers: &HeaderMap,
    query: Option<&str>,
    settings: &Settings,
    may_be_unnamed: impl Fn() -> bool,
) -> Result<ClientId, Error> {
    let rule = &settings.client_id;
    let parse = |client: &str| rule.parse(client).filter(|_| !client.contains(char::is_control));
    let invalid = |carrier| move || Error::ClientIdInvalid { carrier, accepted: rule.clone() };
    if let Some(client) = headers.get(&CLIENT_ID) {
        let client = str::from_utf8(client.as_bytes()).ok();
        return client.and_then(parse).ok_or_else(invalid("The header Client-ID"));
    }
    let invalid = invalid("The parameter client_id");
    if let Some(client) = parameter(query, CLIENT_PARAMETER, invalid)? {
        return parse(&client).ok_or_else(invalid);
    }
    if !settings.client_id_is_optional || !may_be_unnamed() {
        return Err(Error::ClientIdMissing { query_counts: query.is_some() });
    }
    Ok(ClientId::random())
}

/// Returns the value of a parameter that identifies the caller. A blank value counts as absent.
/// `invalid` is the error if the value is not UTF-8.
fn parameter<'q>(
    query: Option<&'q str>,
    name: &'static str,
    invalid: impl FnOnce() -> Error,
) -> Result<Option<Cow<'q, str>>, Error> {
    let Some(query) = query else { return Ok(None) };
    match query::only(query, name) {
        Ok(value) => Ok(value.filter(|value| !value.is_empty())),
        Err(Ambiguous::Repeated) => Err(Error::RepeatedParameter(name)),
        Err(Ambiguous::NotUtf8) => Err(invalid()),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use std::time::Duration;

    use super::*;
    use crate::api::websocket::WebSocketLimits;
    use crate::wire::checksum::Checksums;
    use sukkal_domain::ClientIdRule;

    #[test]
    fn ids_that_are_not_utf_8_are_refused_instead_of_converted() {
        let settings = Settings {
            admin_mode: false,
            pooling: false,
            authenticator: Arc::default(),
            client_id: ClientIdRule::Text(1..=36),
            client_id_is_optional: false,
            default_project: None,
            cors_origins: None,
            public_path: String::new(),
            bound_names: Vec::new(),
            client_timeout: Duration::MAX,
            signer: None,
            checksums: Checksums::Hidden,
            stream_heartbeat: Duration::MAX,
            console: false,
            websocket: WebSocketLimits::default(),
            audit: None,
        };
        let call = |project: &[u8], client: &[u8]| {
            let header = |bytes| HeaderValue::from_bytes(bytes).unwrap();
            let headers = [(PROJECT_ID[0].clone(), header(project)), (CLIENT_ID.clone(), header(client))];
            caller(&HeaderMap::from_iter(headers), None, &settings, Sender::Anybody(None))
        };

        assert_eq!(call("café".as_bytes(), b"me").unwrap().0.project.as_str(), "café");
        assert!(matches!(call(b"caf\xe9", b"me"), Err(Error::ProjectInvalid)));
        assert!(matches!(call(b"p", b"caf\xe9"), Err(Error::ClientIdInvalid { .. })));
    }
}
