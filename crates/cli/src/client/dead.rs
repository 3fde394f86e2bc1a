//! `sukkal dead`: lists dead letters, and moves them back to the queues that they came from.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::arguments::{limit, segment};
use super::error::Error;
use super::http::{Service, encode, queue_path};
use super::output::{Listing, Output, count, inline};
use super::pages::Pages;
use super::queues::QueueList;
use super::redrive;
use super::table::{Align, Table};
use super::view::{MESSAGES, details};
use crate::exit::print_message;

#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(alias = "list")]
    Ls(List),
    Redrive(redrive::Options),
    /// Lists the latest redrives of a queue
    Tasks {
        #[arg(value_parser = segment)]
        queue: String,
    },
    /// Stops a redrive, or removes one that has ended. The messages that it has moved stay moved
    Stop {
        #[arg(value_parser = segment)]
        queue: String,
        #[arg(value_parser = segment)]
        task: String,
    },
}

/// Lists the dead-letter queues, or the messages in one of them
#[derive(Args, Debug)]
pub struct List {
    /// Dead-letter queue [default: list the dead-letter queues]
    #[arg(value_parser = segment)]
    queue: Option<String>,
    /// Maximum number of messages
    #[arg(long, value_name = "N", value_parser = limit, default_value_t = 20, requires = "queue")]
    limit: u64,
    /// List all messages
    #[arg(long, conflicts_with = "limit", requires = "queue")]
    all: bool,
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Ls(list) => match &list.queue {
            Some(queue) => ls(queue, Some(list.limit).filter(|_| !list.all), service, output).await,
            None => ls_queues(service, output).await,
        },
        Command::Redrive(options) => redrive::run(options, service, output).await,
        Command::Tasks { queue } => redrive::ls(queue, service, output).await,
        Command::Stop { queue, task } => redrive::stop(queue, task, service, output).await,
    }
}

async fn ls(queue: &str, limit: Option<u64>, service: &Service, output: &mut Output) -> Result<(), Error> {
    let path = queue_path(queue, &format!("/messages{}&echo=true&include_claimed=true", details(service)));
    let mut shown = Listing::new(&MESSAGES, output);
    let mut pages = Pages::new(service, "messages", path, limit);
    while let Some(messages) = pages.next().await? {
        messages.iter().try_for_each(|message| shown.add(message))?;
    }
    if pages.is_empty() && !service.is_signed() {
        // The list of a queue that does not exist is empty too.
        QueueList::find(service, queue).await?;
    }
    shown.end()
}

/// The dead-letter queues, each with what names it.
type Sources = BTreeMap<String, BTreeSet<String>>;

/// Lists the queues that others, or subscriptions, name as their dead-letter queue.
async fn ls_queues(service: &Service, output: &mut Output) -> Result<(), Error> {
    let (mut sources, mut names) = (Sources::new(), Vec::new());
    let mut queues = QueueList::new(service, "", true, None);
    while let Some(page) = queues.next().await? {
        for queue in page {
            let Some(name) = queue["name"].as_str() else { continue };
            names.push(name.to_owned());
            if let Some(dead) = queue["metadata"]["_dead_letter_queue"].as_str() {
                sources.entry(dead.to_owned()).or_default().insert(name.to_owned());
            }
        }
    }
    match add_those_of_subscriptions(&names, service, &mut sources).await {
        Err(Error::Refused { status: 403, text }) => {
            print_message(&format!("warning: dead-letter queues of subscriptions may be missing: {text}"));
        }
        outcome => outcome?,
    }
    let mut table = Table::new(&[("NAME", Align::Left), ("MESSAGES", Align::Right), ("FROM", Align::Left)]);
    for (name, from) in sources {
        let exists = names.contains(&name);
        let stats = if exists { service.get(&queue_path(&name, "/stats")).await? } else { json!({}) };
        let total = stats["messages"]["total"].as_u64().unwrap_or_default().into();
        if output.is_json() {
            output.document(&json!({ "name": name, "messages": total, "from": from }))?;
        } else {
            let from: Vec<String> = from.into_iter().collect();
            table.row([
                inline(&Value::from(name), true).into(),
                count(&total).into(),
                inline(&from.join(", ").into(), true).into(),
            ]);
        }
    }
    output.table(&table)
}

async fn add_those_of_subscriptions(queues: &[String], service: &Service, to: &mut Sources) -> Result<(), Error> {
    for queue in queues {
        add_those_of("queues", queue, queue, service, to).await?;
    }
    let mut topics = Pages::new(service, "topics", "/v2/topics".to_owned(), None);
    loop {
        let page = match topics.next().await {
            // Zaqar has no topics.
            Ok(None) | Err(Error::NotFound(_) | Error::Refused { status: 404, .. }) => return Ok(()),
            page => page?.unwrap_or_default(),
        };
        for name in page.iter().filter_map(|topic| topic["name"].as_str()) {
            add_those_of("topics", name, &format!("topic {name}"), service, to).await?;
        }
    }
}

/// Adds the dead-letter queues that the subscriptions of a queue or topic name.
async fn add_those_of(plural: &str, name: &str, shown: &str, service: &Service, to: &mut Sources) -> Result<(), Error> {
    let path = format!("/v2/{plural}/{}/subscriptions", encode(name));
    let mut subscriptions = Pages::new(service, "subscriptions", path, None);
    while let Some(page) = subscriptions.next().await? {
        for dead in page.iter().filter_map(|subscription| subscription["options"]["dead_letter_queue"].as_str()) {
            to.entry(dead.to_owned()).or_default().insert(shown.to_owned());
        }
    }
    Ok(())
}
