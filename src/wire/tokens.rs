//! Token documents, and the body that creates a token.

use serde_json::{Map, Value, json};

use super::Error;
use super::json;
use super::timestamp::timestamp;
use sukkal_domain::{ProjectId, Token, TokenDraft, TokenId, TokenRecord};

/// The path of all tokens.
pub const PATH: &str = "/v2/tokens";
const ACCEPTED: &str = "\"name\", \"project_id\", \"roles\" and \"ttl\"";

/// Parses `{"name": …, "project_id": …, "roles": […], "ttl": …}`. Without `project_id`, the token
/// is for the project of the request, and with `null` for all projects. An unknown field is an
/// error, because a token with a misspelled `ttl` would not expire.
pub fn parse_new(bytes: &[u8], own_project: &ProjectId) -> Result<TokenDraft, Error> {
    let fields = json::parse_object(bytes)?;
    if let Some(field) = fields.keys().find(|field| !["name", "project_id", "roles", "ttl"].contains(&field.as_str())) {
        return Err(invalid(&format!("the body has the field {field:?}; it accepts only {ACCEPTED}")));
    }
    let text = |field: &str| required(&fields, field)?.as_str().map(str::to_owned).ok_or_else(|| no_text(field));
    let roles = json::texts(required(&fields, "roles")?);
    Ok(TokenDraft {
        name: text("name")?,
        project: match fields.get("project_id") {
            None => Some(own_project.as_str().to_owned()),
            Some(Value::Null) => None,
            Some(_) => Some(text("project_id")?),
        },
        roles: roles.ok_or_else(|| invalid("\"roles\" must be a list of strings"))?,
        ttl_s: match fields.get("ttl") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(value)) => return Err(invalid(&format!("\"ttl\" is {value}; it must be an integer"))),
            Some(value) => Some(json::integer("ttl", value)?),
        },
    })
}

/// Parses the marker of a page of tokens.
pub fn parse_marker(text: &str) -> Result<TokenId, Error> {
    let error = || Error::Parameter { name: "marker".to_owned(), expected: "the id of a token" };
    TokenId::parse(text).ok_or_else(error)
}

/// Returns the document of a token, without its secret.
#[must_use]
pub fn document(token: &TokenRecord) -> Value {
    json!({
        "id": token.id.to_string(),
        "name": token.grant.name,
        "project_id": token.grant.project.as_ref().map(ProjectId::as_str),
        "roles": token.grant.roles,
        "created_at": timestamp(token.created_s),
        "expires_at": token.expires_s.map(timestamp),
    })
}

/// Returns the document of a new token, with the token itself.
#[must_use]
pub fn created_document(token: &Token, record: &TokenRecord) -> Value {
    let mut document = document(record);
    document["token"] = token.reveal().as_str().into();
    document
}

/// Returns the path of a token.
#[must_use]
pub fn path(id: TokenId) -> String {
    format!("{PATH}/{id}")
}

fn required<'f>(fields: &'f Map<String, Value>, field: &str) -> Result<&'f Value, Error> {
    fields.get(field).ok_or_else(|| invalid(&format!("the body has no field {field:?}; a token needs one")))
}

fn no_text(field: &str) -> Error {
    invalid(&format!("{field:?} must be a string"))
}

fn invalid(text: &str) -> Error {
    Error::Request(text.to_owned())
}
