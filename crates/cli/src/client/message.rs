//! `sukkal message`: posts, lists, follows and deletes messages.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::json;

use super::arguments::{limit, segment};
use super::error::Error;
use super::http::{Service, encode, query, queue_path};
use super::output::{Listing, Output};
use super::pages::Pages;
use super::post;
use super::tail;
use super::view::{MESSAGES, details, show};

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(alias = "send")]
    Post(post::Options),
    #[command(alias = "list")]
    Ls(List),
    /// Shows messages by their ids
    Get {
        #[arg(value_parser = segment)]
        queue: String,
        #[arg(required = true, value_name = "ID", value_parser = segment)]
        ids: Vec<String>,
    },
    /// Shows the oldest available messages, without claiming them
    Peek {
        #[arg(value_parser = segment)]
        queue: String,
        /// Maximum number of messages
        #[arg(long, value_name = "N", value_parser = limit, default_value_t = 1)]
        limit: u64,
    },
    /// Deletes messages by their ids
    #[command(alias = "delete")]
    Rm {
        #[arg(value_parser = segment)]
        queue: String,
        #[arg(required = true, value_name = "ID", value_parser = segment)]
        ids: Vec<String>,
        /// Claim that the messages are under
        #[arg(long, value_name = "ID")]
        claim: Option<String>,
    },
    Tail(tail::Options),
}

/// Lists the messages of a queue, including claimed ones
#[derive(Args, Debug)]
pub struct List {
    #[arg(value_parser = segment)]
    queue: String,
    /// Maximum number of messages
    #[arg(long, value_name = "N", value_parser = limit, default_value_t = 20)]
    limit: u64,
    /// List all messages
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// List the newest messages first
    #[arg(long)]
    newest: bool,
    /// List delayed messages too
    #[arg(long)]
    delayed: bool,
    /// Start after the message with this id
    #[arg(long, value_name = "ID", conflicts_with_all = ["since", "newest"])]
    after: Option<String>,
    /// Start at a time, such as 2026-11-22T12:00:00Z
    #[arg(long, value_name = "TIME", conflicts_with = "newest")]
    since: Option<String>,
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Post(options) => post::run(options, service, output).await,
        Command::Ls(list) => ls(list, service, output).await,
        Command::Get { queue, ids } => get(queue, ids, service, output).await,
        Command::Peek { queue, limit } => peek(queue, *limit, service, output).await,
        Command::Rm { queue, ids, claim } => rm(queue, ids, claim.as_deref(), service, output).await,
        Command::Tail(options) => tail::run(options, service, output).await,
    }
}

async fn ls(list: &List, service: &Service, output: &mut Output) -> Result<(), Error> {
    let yes = || Some("true".to_owned());
    let parameters = query([
        ("echo", yes()),
        ("include_claimed", yes()),
        ("include_delayed", yes().filter(|_| list.delayed)),
        ("include_state", yes().filter(|_| !service.is_signed())),
        ("order", list.newest.then(|| "desc".to_owned())),
        ("marker", list.after.clone()),
        ("since", list.since.clone()),
    ]);
    let path = queue_path(&list.queue, &format!("/messages{parameters}"));
    let mut shown = Listing::new(&MESSAGES, output);
    let mut pages = Pages::new(service, "messages", path, Some(list.limit).filter(|_| !list.all));
    while let Some(messages) = pages.next().await? {
        // A service that does not know the parameters ignores both.
        if list.newest && messages.iter().any(|message| message["state"].is_null()) {
            return Err(Error::Failed(format!("{} cannot list the newest messages first", service.url())));
        }
        messages.iter().try_for_each(|message| shown.add(message))?;
    }
    shown.end()
}

async fn get(queue: &str, ids: &[String], service: &Service, output: &mut Output) -> Result<(), Error> {
    for (index, id) in ids.iter().enumerate() {
        let path = queue_path(queue, &format!("/messages/{}{}", encode(id), details(service)));
        show(&service.get(&path).await?, index == 0, output)?;
    }
    Ok(())
}

async fn peek(queue: &str, limit: u64, service: &Service, output: &mut Output) -> Result<(), Error> {
    let path = queue_path(queue, &format!("/messages{}&echo=true", details(service)));
    let messages = Pages::new(service, "messages", path, Some(limit)).all().await?;
    for (index, message) in messages.iter().enumerate() {
        show(message, index == 0, output)?;
    }
    Ok(())
}

async fn rm(
    queue: &str,
    ids: &[String],
    claim: Option<&str>,
    service: &Service,
    output: &mut Output,
) -> Result<(), Error> {
    let claim = query([("claim_id", claim.map(str::to_owned))]);
    for id in ids {
        let path = queue_path(queue, &format!("/messages/{}", encode(id)));
        service.must_exist(&path).await?;
        service.request(Method::DELETE, &format!("{path}{claim}")).send().await?;
        output.done(&format!("deleted message {id}"), &json!({ "id": id, "deleted": true }))?;
    }
    Ok(())
}
