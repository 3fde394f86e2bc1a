//! `sukkal queue`: lists, creates, changes, pauses, moves, purges and deletes queues.

use std::io::{self, BufRead, IsTerminal, Write};

use clap::{Args, Subcommand};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::arguments::{key_and_value, limit, object, segment};
use super::error::Error;
use super::http::{Service, queue_path};
use super::output::{Listing, Output, count, duration_of, inline, printable};
use super::queues::QueueList;
use super::table::{Align, Cell, Color, Column, Table};

/// The media type of changes of metadata.
const JSON_PATCH: &str = "application/openstack-messaging-v2.0-json-patch";

const COLUMNS: [Column; 6] = [
    ("NAME", Align::Left, |queue| inline(&queue["name"], true).into()),
    ("AVAILABLE", Align::Right, |queue| count(&queue["stats"]["available"]).into()),
    ("CLAIMED", Align::Right, |queue| count(&queue["stats"]["claimed"]).into()),
    ("DELAYED", Align::Right, |queue| count(&queue["stats"]["delayed"]).into()),
    ("OLDEST", Align::Right, |queue| duration_of(&queue["stats"]["oldest_age"]).into()),
    ("STATE", Align::Left, |queue| state(&queue["stats"])),
];

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the queues of the project, with the numbers of their messages
    #[command(alias = "list")]
    Ls(List),
    /// Creates a queue
    ///
    /// If the queue exists, its metadata does not change. A post to a queue that does not exist
    /// creates it too.
    ///
    /// Messages without a time to live expire after _default_message_ttl seconds, by default one
    /// hour, even if nobody has read them. Dead letters expire after
    /// _dead_letter_queue_messages_ttl seconds; without it, they keep only the rest of their time
    /// to live.
    #[command(alias = "add")]
    Create {
        #[arg(value_parser = segment)]
        queue: String,
        #[command(flatten)]
        metadata: Metadata,
    },
    /// Shows the numbers of messages of a queue, and its metadata
    Show {
        #[arg(value_parser = segment)]
        queue: String,
    },
    /// Changes the metadata of a queue
    Set {
        #[arg(value_parser = segment)]
        queue: String,
        #[command(flatten)]
        metadata: Metadata,
        /// Key to remove from the metadata
        #[arg(long, value_name = "KEY")]
        unset: Vec<String>,
    },
    /// Stops the delivery of messages: claims and pops get none until the queue is resumed
    Pause(Queues),
    /// Resumes the delivery of messages
    Resume(Queues),
    /// Moves a queue to another pool, with everything that it has
    ///
    /// Requests for the queue wait meanwhile, and fail if that takes too long. The command ends
    /// when the move is complete, which may take minutes. The move continues if the command is
    /// interrupted. It needs a service with pools, and the role admin, which the command sends in
    /// X-Roles.
    Move {
        #[arg(value_parser = segment)]
        queue: String,
        /// Pool to move the queue to
        #[arg(long, value_name = "NAME")]
        pool: String,
    },
    /// Deletes all messages of queues, including claimed ones. Subscriptions stay
    Purge(Deletion),
    /// Deletes queues with all their messages
    #[command(alias = "delete")]
    Rm(Deletion),
}

#[derive(Args, Debug)]
pub struct List {
    /// List only queues whose names begin with this text
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
    /// Maximum number of queues
    #[arg(long, value_name = "N", value_parser = limit)]
    limit: Option<u64>,
}

#[derive(Args, Debug)]
pub struct Metadata {
    /// Metadata, such as `team=billing` or `_max_claim_count=3`. A value that is not JSON is a
    /// string
    ///
    /// The service uses these keys: _default_message_ttl, _default_message_delay,
    /// _enable_message_delay, _max_claim_count, _dead_letter_queue,
    /// _dead_letter_queue_messages_ttl, _durability, _enable_encrypt_messages, _flavor,
    /// _max_messages_post_size, _retry_policy, _shards and _shards_per_tenant.
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
    metadata: Vec<(String, Value)>,
}

#[derive(Args, Debug)]
pub struct Queues {
    #[arg(required = true, value_name = "QUEUE", value_parser = segment)]
    queues: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Deletion {
    #[command(flatten)]
    queues: Queues,
    /// Do not ask for confirmation. Only a person at a terminal is asked
    #[arg(long, short)]
    yes: bool,
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Ls(list) => ls(list, service, output).await,
        Command::Create { queue, metadata } => create(queue, metadata, service, output).await,
        Command::Show { queue } => show(queue, service, output).await,
        Command::Set { queue, metadata, unset } => set(queue, metadata, unset, service, output).await,
        Command::Pause(_) | Command::Resume(_) if service.is_of_topics() => {
            Err(Error::Usage("topics cannot be paused or resumed: they have no claims".to_owned()))
        }
        Command::Pause(queues) => change(&Change::PAUSE, queues, service, output).await,
        Command::Resume(queues) => change(&Change::RESUME, queues, service, output).await,
        Command::Move { queue, pool } => move_to(queue, pool, service, output).await,
        Command::Purge(deletion) => {
            deletion.confirm("Delete all messages of", service)?;
            change(&Change::PURGE, &deletion.queues, service, output).await
        }
        Command::Rm(deletion) => {
            deletion.confirm("Delete", service)?;
            change(&Change::DELETE, &deletion.queues, service, output).await
        }
    }
}

async fn ls(list: &List, service: &Service, output: &mut Output) -> Result<(), Error> {
    let mut queues = QueueList::new(service, &list.prefix, false, list.limit);
    let mut shown = Listing::new(&COLUMNS, output);
    while let Some(page) = queues.next().await? {
        page.iter().try_for_each(|queue| shown.add(queue))?;
    }
    shown.end()
}

fn state(stats: &Value) -> Cell {
    if stats["paused"] == true { Cell::colored("paused", Some(Color::Yellow)) } else { "".into() }
}

async fn create(queue: &str, metadata: &Metadata, service: &Service, output: &mut Output) -> Result<(), Error> {
    let document = object(&metadata.metadata)?;
    let request = service.request(Method::PUT, &queue_path(queue, "")).json(&document.into());
    let (is_new, noun) = (request.send().await?.status == StatusCode::CREATED, service.noun());
    let sentence = if is_new {
        format!("created {noun} {queue}")
    } else {
        format!("{noun} {queue} exists; its metadata is unchanged")
    };
    output.done(&sentence, &json!({ "name": queue, "created": is_new }))
}

async fn show(queue: &str, service: &Service, output: &mut Output) -> Result<(), Error> {
    let mut found = QueueList::find(service, queue).await?;
    if found["stats"].is_null() {
        found["stats"] = service.get(&queue_path(queue, "/stats")).await?["messages"].take();
    }
    if output.is_json() {
        return output.document(&found);
    }
    let stats = &found["stats"];
    let mut table = Table::of_properties();
    table.property("name", queue);
    table.property("state", state(stats));
    for name in ["available", "free", "claimed", "delayed", "total"] {
        table.property(name, count(&stats[name]));
    }
    table.property(
        "oldest",
        duration_of(if stats["oldest_age"].is_u64() { &stats["oldest_age"] } else { &stats["oldest"]["age"] }),
    );
    for (name, total) in stats["totals"].as_object().into_iter().flatten() {
        table.property(&format!("total {}", printable(name).replace('_', "-")), count(total));
    }
    for (key, value) in found["metadata"].as_object().into_iter().flatten() {
        table.property(&printable(key), inline(value, false));
    }
    output.table(&table)
}

async fn set(
    queue: &str,
    metadata: &Metadata,
    unset: &[String],
    service: &Service,
    output: &mut Output,
) -> Result<(), Error> {
    let path = |key: &str| format!("/metadata/{}", key.replace('~', "~0").replace('/', "~1"));
    let add = |(key, value): &(String, Value)| json!({ "op": "add", "path": path(key), "value": value });
    let remove = |key: &String| json!({ "op": "remove", "path": path(key) });
    let changes: Vec<Value> = metadata.metadata.iter().map(add).chain(unset.iter().map(remove)).collect();
    if changes.is_empty() {
        return Err(Error::Usage("there is nothing to change; name KEY=VALUE or --unset KEY".to_owned()));
    }
    if let Some((key, _)) = metadata.metadata.iter().find(|(key, _)| unset.contains(key)) {
        return Err(Error::Usage(format!("{key:?} cannot be set and unset in one command")));
    }
    let body = Value::from(changes).to_string();
    let request = service.request(Method::PATCH, &queue_path(queue, "")).body(body.into(), JSON_PATCH);
    // A key that the first request has removed would be missing in a second one.
    let request = if unset.is_empty() { request.repeatable() } else { request };
    let metadata = request.send().await?.json()?;
    output.done(&format!("changed {} {queue}", service.noun()), &json!({ "name": queue, "metadata": metadata }))
}

/// A change of a queue that needs nothing but its name.
struct Change {
    method: Method,
    /// The part of the path after the queue.
    path: &'static str,
    /// What a purge deletes.
    resource_types: &'static [&'static str],
    done: &'static str,
}

impl Change {
    const PAUSE: Self = Self { method: Method::POST, path: "/pause", resource_types: &[], done: "paused" };
    const RESUME: Self = Self { method: Method::POST, path: "/resume", resource_types: &[], done: "resumed" };
    /// Without resource types, the service would delete all subscriptions too.
    const PURGE: Self = Self { method: Method::POST, path: "/purge", resource_types: &["messages"], done: "purged" };
    const DELETE: Self = Self { method: Method::DELETE, path: "", resource_types: &[], done: "deleted" };

    /// Whether a queue that does not exist stays so. The service reports a success then.
    fn is_deletion(&self) -> bool {
        self.method == Method::DELETE || !self.resource_types.is_empty()
    }
}

async fn change(change: &Change, queues: &Queues, service: &Service, output: &mut Output) -> Result<(), Error> {
    for queue in &queues.queues {
        let is_missing = change.is_deletion() && is_missing(queue, service).await?;
        let mut request = service.request(change.method.clone(), &queue_path(queue, change.path)).repeatable();
        if !change.resource_types.is_empty() {
            request = request.json(&json!({ "resource_types": change.resource_types }));
        }
        request.send().await?;
        let (done, noun) = (change.done, service.noun());
        let sentence = if is_missing {
            format!("there is no {noun} {queue}; nothing was {done}")
        } else {
            format!("{done} {noun} {queue}")
        };
        output.done(&sentence, &json!({ "name": queue, done: !is_missing }))?;
    }
    Ok(())
}

/// Whether there is no queue with this name, as far as the caller may know.
async fn is_missing(queue: &str, service: &Service) -> Result<bool, Error> {
    match QueueList::find(service, queue).await {
        Err(Error::NotFound(_)) => Ok(true),
        Err(error @ Error::Unavailable(_)) => Err(error),
        // A caller may be allowed to delete a queue, but not to list queues.
        Ok(_) | Err(_) => Ok(false),
    }
}

async fn move_to(queue: &str, pool: &str, service: &Service, output: &mut Output) -> Result<(), Error> {
    let request = service.request(Method::POST, &queue_path(queue, "/move")).json(&json!({ "pool": pool }));
    // The service responds when the move is complete, however long it takes.
    request.repeatable().waits(u64::MAX).send().await?;
    let document = json!({ "name": queue, "pool": pool, "moved": true });
    output.done(&format!("moved {} {queue} to pool {pool}", service.noun()), &document)
}

impl Deletion {
    /// Asks a person at a terminal whether the messages may be lost. Programs are not asked.
    fn confirm(&self, action: &str, service: &Service) -> Result<(), Error> {
        if self.yes || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
            return Ok(());
        }
        let (noun, queues) = (service.noun(), self.queues.queues.join(", "));
        // In one piece: what is typed ahead is shown before it or after it.
        let question = format!("{action} {noun} {queues}? [y/N] ");
        io::stderr().write_all(question.as_bytes())?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).map_err(Error::input)?;
        let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        if is_yes { Ok(()) } else { Err(Error::Failed("nothing was changed".to_owned())) }
    }
}
