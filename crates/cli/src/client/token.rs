//! `sukkal token`: creates, lists, shows and deletes tokens, with which clients authenticate, and
//! generates the first one.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Value, json};

use super::arguments::{limit, segment};
use super::error::Error;
use super::http::{Service, encode, query};
use super::output::{Output, inline};
use super::pages::Pages;
use super::table::{Align, Column};
use crate::duration::seconds;
use sukkal_domain::Token;

const PATH: &str = "/v2/tokens";
/// Length of the id of a token.
const ID_CHARS: usize = 36;

const COLUMNS: [Column; 6] = [
    ("ID", Align::Left, |token| inline(&token["id"], true).into()),
    ("NAME", Align::Left, |token| inline(&token["name"], true).into()),
    ("PROJECT", Align::Left, |token| project(token).into()),
    ("ROLES", Align::Left, |token| roles(token).into()),
    ("CREATED", Align::Left, |token| inline(&token["created_at"], true).into()),
    ("EXPIRES", Align::Left, |token| inline(&token["expires_at"], true).into()),
];

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Creates a token of the project that --project names
    ///
    /// Prints the token, which cannot be shown again. Its holder sends it as `Authorization:
    /// Bearer`. With the role admin, you can create tokens with any roles. Otherwise, the token can
    /// have only your own roles; as a manager, also reader, producer and worker.
    Create(New),
    /// Lists the tokens, without their secrets
    ///
    /// With --project, only those of this project. Otherwise all that you manage.
    #[command(alias = "list")]
    Ls {
        /// Maximum number of tokens
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
    },
    /// Shows a token, without its secret
    Show {
        #[arg(value_parser = id)]
        id: String,
    },
    /// Deletes tokens. All processes of the service refuse them within 5 seconds
    #[command(alias = "delete")]
    Rm {
        #[arg(required = true, value_name = "ID", value_parser = id)]
        ids: Vec<String>,
    },
    /// Prints a new token for `admin_token` of the service, without using the service
    Generate,
}

#[derive(Args, Debug)]
pub struct New {
    /// What the token is for
    name: String,
    /// A role of its holder. May be repeated
    #[arg(long = "role", required = true, value_name = "ROLE")]
    roles: Vec<String>,
    /// Time until the token expires [default: it does not expire]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    ttl: Option<u64>,
    /// Create a token for all projects. Each request then names its project
    #[arg(long, conflicts_with = "project")]
    all_projects: bool,
}

/// Runs a command. `service` returns the service, which a new token does not need.
pub(super) async fn run(
    command: &Command,
    service: impl AsyncFnOnce() -> Result<Service, Error>,
    output: &mut Output,
) -> Result<(), Error> {
    match command {
        Command::Create(new) => create(new, &service().await?, output).await,
        Command::Ls { limit } => ls(*limit, &service().await?, output).await,
        Command::Show { id } => output.item(&COLUMNS, &service().await?.get(&path(id)).await?),
        Command::Rm { ids } => rm(ids, &service().await?, output).await,
        Command::Generate => {
            let token = Token::random().reveal();
            output.done(&token, &json!({ "token": *token }))
        }
    }
}

async fn create(new: &New, service: &Service, output: &mut Output) -> Result<(), Error> {
    let mut document = json!({ "name": new.name, "roles": new.roles });
    if let Some(ttl) = new.ttl {
        document["ttl"] = ttl.into();
    }
    if new.all_projects {
        document["project_id"] = Value::Null;
    }
    let created = service.request(Method::POST, PATH).json(&document).send().await?.json()?;
    if output.is_json() {
        return output.document(&created);
    }
    let projects = match &created["project_id"] {
        Value::Null => "all projects".to_owned(),
        project => format!("project {}", inline(project, true)),
    };
    output.line(&format!("created token {} for {projects}", inline(&created["id"], true)))?;
    output.line(&inline(&created["token"], true))
}

async fn ls(limit: Option<u64>, service: &Service, output: &mut Output) -> Result<(), Error> {
    let path = format!("{PATH}{}", query([("project_id", service.chosen_project().map(str::to_owned))]));
    Pages::new(service, "tokens", path, limit).print(&COLUMNS, output).await
}

async fn rm(ids: &[String], service: &Service, output: &mut Output) -> Result<(), Error> {
    for id in ids {
        service.delete(&path(id)).await?;
        output.done(&format!("deleted token {id}"), &json!({ "id": id, "deleted": true }))?;
    }
    Ok(())
}

/// Parses the id of a token. Of a whole token, only its id is sent, because a path is no place for
/// secrets.
fn id(text: &str) -> Result<String, String> {
    let id = text.strip_prefix("skt_").and_then(|rest| rest.split('_').next());
    segment(id.filter(|id| id.len() == ID_CHARS).unwrap_or(text))
}

/// Returns the project of a token, or that it is for all projects.
fn project(token: &Value) -> String {
    match &token["project_id"] {
        Value::Null => "(all)".to_owned(),
        project => inline(project, true),
    }
}

fn roles(token: &Value) -> String {
    let roles = token["roles"].as_array().into_iter().flatten();
    roles.map(|role| inline(role, true)).collect::<Vec<_>>().join(",")
}

fn path(id: &str) -> String {
    format!("{PATH}/{}", encode(id))
}
