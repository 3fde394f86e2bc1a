//! Lets operators act on another project: with the query parameter `project_id`, their request is
//! handled as if its header had named that project.

use axum::extract::Request;
use axum::http::Uri;
use axum::http::uri::PathAndQuery;
use tracing::info;

use super::identity::PROJECT_PARAMETER;
use crate::api::parameters::Parameters;
use crate::api::service::Settings;
use crate::auth::Client;
use crate::wire::Error;
use crate::wire::query::{self, Ambiguous};
use sukkal_domain::ProjectId;
use sukkal_domain::queue_id::PROJECT_ID_CHARS_MAX;
use sukkal_domain::token::without_tokens;

/// Returns the project that an operator's request names in its query, if it does, and the URL
/// without it, because handlers must not take the parameter for one of theirs.
///
/// A route that has the parameter itself, among its `parameters`, keeps it, as the list of tokens
/// does. Requests with a signature never have the role of operators.
pub(super) fn named_project(
    request: &Request,
    client: &Client,
    settings: &Settings,
    parameters: Parameters,
) -> Result<Option<(ProjectId, Uri)>, Error> {
    if !settings.admin_mode || !client.is_admin() {
        return Ok(None);
    }
    let project = match query::only(request.uri().query().unwrap_or_default(), PROJECT_PARAMETER) {
        Ok(None) => return Ok(None),
        Ok(Some(project)) => parse(&project)?,
        Err(Ambiguous::Repeated) => return Err(Error::RepeatedParameter(PROJECT_PARAMETER)),
        Err(Ambiguous::NotUtf8) => return Err(invalid()),
    };
    if parameters.names.contains(&PROJECT_PARAMETER) {
        return Ok(None);
    }
    info!(
        method = request.method().as_str(),
        path = %without_tokens(request.uri().path()),
        project = project.as_str(),
        own_project = client.project.as_str(),
        client = client.id.as_str(),
        subject = client.identity.as_ref().map(|identity| identity.subject.as_str()),
        "an operator acts on a project"
    );
    Ok(Some((project, without_project(request.uri()))))
}

/// Parses the id of a project in a query.
pub(in crate::api) fn parse(text: &str) -> Result<ProjectId, Error> {
    let is_valid = text.chars().count() <= PROJECT_ID_CHARS_MAX && !text.contains(char::is_control);
    ProjectId::new(text).filter(|_| is_valid).ok_or_else(invalid)
}

fn invalid() -> Error {
    Error::Parameter {
        name: PROJECT_PARAMETER.to_owned(),
        expected: "the id of a project: 1 to 256 characters of UTF-8 without control characters",
    }
}

/// Returns the URL without the parameter.
fn without_project(uri: &Uri) -> Uri {
    let is_other = |parameter: &&str| query::only(parameter, PROJECT_PARAMETER) == Ok(None);
    let others: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(is_other).collect();
    let mut parts = uri.clone().into_parts();
    let path_and_query = [uri.path(), &others.join("&")].join("?");
    parts.path_and_query = Some(PathAndQuery::try_from(path_and_query).expect("parts of a URL are legal in a URL"));
    Uri::from_parts(parts).expect("only the query has changed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_project_is_removed_from_a_url() {
        for (given, left) in [
            ("/v2/queues?project_id=p", "/v2/queues?"),
            ("/a%20b?x=%26&%70roject_id=a,b&y", "/a%20b?x=%26&y"),
            ("http://host:1/a?b&project_id=p", "http://host:1/a?b"),
            ("/a?project_ids=1&project_id=p", "/a?project_ids=1"),
        ] {
            assert_eq!(without_project(&given.parse().unwrap()).to_string(), left);
        }
    }
}
