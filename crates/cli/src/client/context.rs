//! `sukkal context`: names services, with their projects and credentials.

use std::io;
use std::path::{self, PathBuf};

use clap::{Args, Subcommand};
use serde_json::json;

use super::connection::{certificate_in, only_in};
use super::contexts::{Context, Contexts};
use super::credentials::Credentials;
use super::environment::{Environment, shown};
use super::error::Error;
use super::flags::{DEFAULT_URL, Flags};
use super::http::check_url;
use super::output::Output;
use super::table::{Align, Table};
use crate::exit::print_message;
use sukkal_base::text;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Adds a context, or replaces the one with this name
    ///
    /// The context has the values of --url, which is required, --project, --client-id, --token,
    /// --credentials-file, --cacert and --cert. The first context is used by default. Contexts are
    /// kept in `sukkal/contexts.toml` in the folder XDG_CONFIG_HOME or ~/.config, and only you can
    /// read them.
    Add(Add),
    /// Selects the context that commands use by default
    Use { name: String },
    /// Lists the contexts, without their credentials
    Ls,
    /// Removes contexts
    Rm {
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub struct Add {
    name: String,
    /// Read the credentials from stdin and keep them in the context. With --credentials-file, the
    /// context keeps only the name of the file
    #[arg(long, conflicts_with_all = ["credentials_file", "token"])]
    credentials_stdin: bool,
}

pub(super) fn run(
    command: &Command,
    flags: &Flags,
    environment: &Environment,
    output: &mut Output,
) -> Result<(), Error> {
    match command {
        Command::Add(add) => {
            let context = context(add, flags)?;
            let mut is_new = true;
            Contexts::change(environment, |contexts| {
                is_new = contexts.contexts.insert(add.name.clone(), context).is_none();
                contexts.current.get_or_insert_with(|| add.name.clone());
                Ok(())
            })?;
            let done = if is_new { "added" } else { "replaced" };
            output.done(&format!("{done} context {}", add.name), &json!({ "name": add.name, done: true }))
        }
        Command::Use { name } => {
            Contexts::change(environment, |contexts| {
                contexts.get(name)?;
                contexts.current = Some(name.clone());
                Ok(())
            })?;
            if environment.text("SUKKAL_URL")?.is_some() {
                print_message("warning: SUKKAL_URL is set, and commands use it instead of the context; unset it");
            }
            output.done(&format!("commands now use context {name}"), &json!({ "name": name, "current": true }))
        }
        Command::Ls => ls(&Contexts::load(environment)?, output),
        Command::Rm { names } => {
            let mut was_current = false;
            Contexts::change(environment, |contexts| {
                names.iter().try_for_each(|name| {
                    contexts.contexts.remove(name).ok_or_else(|| Contexts::unknown(name))?;
                    was_current |= contexts.current.take_if(|current| current == name).is_some();
                    Ok(())
                })
            })?;
            if was_current {
                print_message(&format!(
                    "warning: the context in use was removed, so commands now use {DEFAULT_URL} by default"
                ));
            }
            names.iter().try_for_each(|name| {
                output.done(&format!("removed context {name}"), &json!({ "name": name, "removed": true }))
            })
        }
    }
}

fn context(add: &Add, flags: &Flags) -> Result<Context, Error> {
    let url = flags.url.clone().ok_or_else(|| Error::Usage("a context needs --url".to_owned()))?;
    check_url(&url)?;
    let credentials = match &flags.token {
        Some(token) => {
            Credentials::bearer(token, "--token")?;
            Some(Credentials::line(token))
        }
        None if add.credentials_stdin => {
            let lines = text::text_of(io::stdin()).map_err(Error::input)?;
            Credentials::parse(&lines, "stdin")?;
            Some(lines.to_string())
        }
        None => None,
    };
    if let Some(file) = &flags.credentials_file {
        Credentials::read(file)?;
    }
    if let Some(file) = &flags.cacert {
        only_in(file)?;
    }
    if let Some(file) = &flags.cert {
        certificate_in(file)?;
    }
    // Links are kept, because the file behind a link may be replaced.
    let absolute =
        |file: &PathBuf| path::absolute(file).map_err(|error| Error::Usage(format!("{}: {error}", shown(file))));
    let credentials_file = flags.credentials_file.as_ref().map(absolute).transpose()?;
    let cacert = flags.cacert.as_ref().map(absolute).transpose()?;
    let cert = flags.cert.as_ref().map(absolute).transpose()?;
    let (project, client_id) = (flags.project.clone(), flags.client_id.clone());
    Ok(Context { url, project, client_id, credentials, credentials_file, cacert, cert })
}

fn ls(contexts: &Contexts, output: &mut Output) -> Result<(), Error> {
    let mut table = Table::new(&["", "NAME", "URL", "PROJECT", "CREDENTIALS"].map(|name| (name, Align::Left)));
    for (name, context) in &contexts.contexts {
        let is_current = contexts.current.as_ref() == Some(name);
        let credentials = match &context.credentials_file {
            Some(file) => format!("in {}", shown(file)),
            None if context.credentials.is_some() => "in the context".to_owned(),
            None => String::new(),
        };
        if output.is_json() {
            output.document(&json!({
                "name": name,
                "url": context.url,
                "project": context.project,
                "client_id": context.client_id,
                "has_credentials": !credentials.is_empty(),
                "current": is_current,
            }))?;
        } else {
            let mark = if is_current { "*" } else { "" };
            let project = context.project.clone().unwrap_or_default();
            table.row([mark.into(), name.into(), context.url.clone().into(), project.into(), credentials.into()]);
        }
    }
    output.table(&table)
}
