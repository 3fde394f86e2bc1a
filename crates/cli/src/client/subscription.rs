//! `sukkal subscription`: lists, creates, shows, pauses, resumes and deletes subscriptions, lists
//! their attempts, and delivers messages again.

use clap::{Args, Subcommand};
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::arguments::{document, key_and_value, limit, object, segment};
use super::error::Error;
use super::http::{Service, encode, queue_path};
use super::output::{Output, count, duration_of, inline, listed, printable, removed_keys};
use super::pages::Pages;
use super::table::{Align, Cell, Color, Column, Table};
use crate::duration::seconds;

const NOTHING_TO_CHANGE: &str = "there is nothing to change; name --subscriber, --ttl, --secret or KEY=VALUE";

const COLUMNS: [Column; 6] = [
    ("ID", Align::Left, |subscription| inline(&subscription["id"], true).into()),
    ("SUBSCRIBER", Align::Left, |subscription| inline(&subscription["subscriber"], true).into()),
    ("AGE", Align::Right, |subscription| duration_of(&subscription["age"]).into()),
    ("TTL", Align::Right, |subscription| duration_of(&subscription["ttl"]).into()),
    ("STATE", Align::Left, |subscription| cell("state", &subscription["delivery"]["state"])),
    ("UNTIL", Align::Left, |subscription| inline(&subscription["delivery"]["until"], true).into()),
];
const ATTEMPTS: [Column; 7] = [
    ("AT", Align::Left, |attempt| inline(&attempt["at"], true).into()),
    ("MESSAGE", Align::Left, |attempt| inline(&attempt["message_id"], true).into()),
    ("ATTEMPT", Align::Right, |attempt| count(&attempt["attempt"]).into()),
    ("STATUS", Align::Right, |attempt| inline(&attempt["status"], true).into()),
    ("MS", Align::Right, |attempt| count(&attempt["duration_ms"]).into()),
    ("ERROR", Align::Left, |attempt| Cell::colored(inline(&attempt["error"], true), Some(Color::Red))),
    ("RESPONSE", Align::Left, |attempt| inline(&attempt["response"], true).into()),
];

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Lists the subscriptions of a queue
    #[command(alias = "list")]
    Ls {
        /// Name of the queue
        #[arg(value_parser = segment)]
        queue: String,
        /// Maximum number of subscriptions
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
    },
    /// Creates a subscription: the service sends the messages of a queue to a URL or a mail
    /// address
    ///
    /// For a URL, the output contains the secret that signs the notifications, which is shown only
    /// once. The recipient of a mail address must confirm the subscription by a mail that it gets,
    /// unless the operator trusts the address.
    Create(Box<New>),
    /// Shows a subscription, and how far its deliveries have come
    Show(One),
    /// Lists the last attempts to notify the subscriber, the newest first
    Attempts(One),
    /// Changes a subscription. Options replace all earlier ones; the output names those removed
    Set(Box<Change>),
    /// Stops notifications until the subscription is resumed
    Pause(Several),
    /// Continues notifications of subscriptions that are paused, disabled or held
    Resume(Several),
    /// Delivers messages again
    Redeliver(Redelivery),
    /// Deletes subscriptions
    #[command(alias = "delete")]
    Rm(Several),
}

#[derive(Args, Debug)]
pub struct New {
    /// Name of the queue
    #[arg(value_parser = segment)]
    queue: String,
    /// URL that receives the messages, or mailto:ADDRESS
    #[arg(value_name = "URL")]
    subscriber: String,
    /// Time after which the subscription is deleted [default: as the service is configured, usually
    /// 3600]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    ttl: Option<u64>,
    /// Deliver messages from this time on, such as 2026-11-22T12:00:00Z [default: only new
    /// messages]
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Key that signs the notifications to a URL [default: a new one]
    #[arg(long, value_name = "KEY")]
    secret: Option<String>,
    /// Options, such as `ordered=true` or `match={"kind":"order"}`. A value that is not JSON is a
    /// string
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
    options: Vec<(String, Value)>,
}

#[derive(Args, Debug)]
pub struct One {
    /// Name of the queue
    #[arg(value_parser = segment)]
    queue: String,
    /// Id of the subscription
    #[arg(value_parser = segment)]
    subscription: String,
}

#[derive(Args, Debug)]
pub struct Change {
    #[command(flatten)]
    one: One,
    /// URL that receives the messages from now on
    #[arg(long, value_name = "URL")]
    subscriber: Option<String>,
    /// How long the subscription lasts from now on
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    ttl: Option<u64>,
    /// Key that signs the notifications. The former one signs them too for 24 hours
    #[arg(long, value_name = "KEY")]
    secret: Option<String>,
    /// Options, such as `ordered=true`. A value that is not JSON is a string
    #[arg(value_name = "KEY=VALUE", value_parser = key_and_value)]
    options: Vec<(String, Value)>,
}

#[derive(Args, Debug)]
pub struct Several {
    /// Name of the queue
    #[arg(value_parser = segment)]
    queue: String,
    /// Ids of the subscriptions
    #[arg(required = true, value_name = "SUBSCRIPTION", value_parser = segment)]
    subscriptions: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Redelivery {
    #[command(flatten)]
    one: One,
    /// Deliver all messages from this time on, such as 2026-11-22T12:00:00Z
    #[arg(long, value_name = "TIME", required_unless_present = "id", conflicts_with = "id")]
    since: Option<String>,
    /// Deliver the message with this id. May be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Ls { queue, limit } => {
            let path = queue_path(queue, "/subscriptions?with_delivery=true");
            Pages::new(service, "subscriptions", path, *limit).print(&COLUMNS, output).await
        }
        Command::Create(new) => create(new, service, output).await,
        Command::Show(one) => show(one, service, output).await,
        Command::Attempts(one) => output.list(&ATTEMPTS, &service.get(&one.path("/attempts")).await?["attempts"]),
        Command::Set(new) => set(new, service, output).await,
        Command::Pause(several) => change(several, "pause", "paused", service, output).await,
        Command::Resume(several) => change(several, "resume", "resumed", service, output).await,
        Command::Redeliver(redelivery) => redeliver(redelivery, service, output).await,
        Command::Rm(several) => rm(several, service, output).await,
    }
}

async fn create(new: &New, service: &Service, output: &mut Output) -> Result<(), Error> {
    let document = document([
        ("subscriber", Some(json!(new.subscriber))),
        ("ttl", new.ttl.map(Value::from)),
        ("since", new.since.as_ref().map(|since| json!(since))),
        ("secret", new.secret.as_ref().map(|secret| json!(secret))),
        ("options", options(&new.options)?),
    ]);
    let request = service.request(Method::POST, &queue_path(&new.queue, "/subscriptions"));
    let created = request.json(&document).send().await?.json()?;
    if output.is_json() {
        return output.document(&created);
    }
    let id = inline(&created["subscription_id"], true);
    let is_new = !created["secret"].is_null();
    output.line(&if is_new {
        format!("created subscription {id}")
    } else {
        format!("subscription {id} exists; it is unchanged")
    })?;
    // Mails are not signed.
    if new.subscriber.split_once(':').is_some_and(|(scheme, _)| scheme.eq_ignore_ascii_case("mailto")) {
        return output.line("a mail asks the recipient to confirm first, unless the operator trusts the address");
    }
    for (name, key) in [("secret", "secret"), ("public key", "public_key")] {
        if let Some(text) = created[key].as_str() {
            output.line(&format!("{name} {}", printable(text)))?;
        }
    }
    Ok(())
}

async fn set(new: &Change, service: &Service, output: &mut Output) -> Result<(), Error> {
    let options = options(&new.options)?;
    let document = document([
        ("subscriber", new.subscriber.as_ref().map(|subscriber| json!(subscriber))),
        ("ttl", new.ttl.map(Value::from)),
        ("secret", new.secret.as_ref().map(|secret| json!(secret))),
        ("options", options.clone()),
    ]);
    if document.as_object().is_none_or(Map::is_empty) {
        return Err(Error::Usage(NOTHING_TO_CHANGE.to_owned()));
    }
    let removed = match &options {
        Some(options) => removed_keys(&service.find(&new.one.path("")).await["options"], options),
        None => Vec::new(),
    };
    service.request(Method::PATCH, &new.one.path("")).json(&document).repeatable().send().await?;
    let mut sentence = format!("changed subscription {}", new.one.subscription);
    sentence += &listed("; removed: ", &removed);
    let mut done = json!({ "id": new.one.subscription, "changed": true, "removed": removed });
    if new.subscriber.is_some() {
        done["state"] = service.find(&new.one.path("?with_delivery=true")).await["delivery"]["state"].take();
        if done["state"] == "unconfirmed" {
            sentence += "; nothing is sent until the new subscriber confirms";
        }
    }
    output.done(&sentence, &done)
}

fn options(options: &[(String, Value)]) -> Result<Option<Value>, Error> {
    Ok(if options.is_empty() { None } else { Some(object(options)?.into()) })
}

async fn show(one: &One, service: &Service, output: &mut Output) -> Result<(), Error> {
    let found = service.get(&format!("{}?with_delivery=true", one.path(""))).await?;
    if output.is_json() {
        return output.document(&found);
    }
    let mut table = Table::of_properties();
    for name in ["id", "source", "subscriber"] {
        table.property(name, inline(&found[name], true));
    }
    for name in ["age", "ttl"] {
        table.property(name, duration_of(&found[name]));
    }
    for (name, value) in found["options"].as_object().into_iter().flatten() {
        table.property(&format!("option {}", printable(name)), inline(value, false));
    }
    for (name, value) in found["delivery"].as_object().into_iter().flatten() {
        if !value.is_null() {
            table.property(&printable(name).replace('_', " "), cell(name, value));
        }
    }
    output.table(&table)
}

/// Returns the cell of a property of the deliveries.
fn cell(name: &str, value: &Value) -> Cell {
    let color = match value.as_str() {
        Some("paused" | "unconfirmed" | "held") if name == "state" => Some(Color::Yellow),
        Some("disabled") if name == "state" => Some(Color::Red),
        _ => None,
    };
    Cell::colored(if value.is_u64() { count(value) } else { inline(value, true) }, color)
}

async fn change(
    several: &Several,
    verb: &str,
    done: &str,
    service: &Service,
    output: &mut Output,
) -> Result<(), Error> {
    for id in &several.subscriptions {
        let path = format!("{}/{verb}", several.path(id));
        service.request(Method::POST, &path).repeatable().send().await?;
        output.done(&format!("{done} subscription {id}"), &json!({ "id": id, done: true }))?;
    }
    Ok(())
}

async fn redeliver(redelivery: &Redelivery, service: &Service, output: &mut Output) -> Result<(), Error> {
    let document = match &redelivery.since {
        Some(since) => json!({ "since": since }),
        None => json!({ "ids": redelivery.id }),
    };
    let response = service.request(Method::POST, &redelivery.one.path("/redeliver")).json(&document).send().await?;
    let (id, is_accepted) = (&redelivery.one.subscription, response.status == StatusCode::ACCEPTED);
    let status = response.json()?;
    let wait = match (status["state"].as_str(), status["until"].as_str()) {
        (None | Some("active"), _) => String::new(),
        (Some(state), None) => format!(" when it is resumed; it is {}", printable(state)),
        (Some(state), Some(until)) => format!(" later; it is {} until {}", printable(state), printable(until)),
    };
    let skips = redelivery.since.as_deref() == Some("now");
    let what = if skips { "skips the messages that are not delivered yet" } else { "delivers messages again" };
    let document = json!({ "id": id, "redelivers": is_accepted, "state": status["state"], "until": status["until"] });
    output.done(&format!("subscription {id} {what}{wait}"), &document)
}

async fn rm(several: &Several, service: &Service, output: &mut Output) -> Result<(), Error> {
    for id in &several.subscriptions {
        let path = several.path(id);
        service.delete(&path).await?;
        output.done(&format!("deleted subscription {id}"), &json!({ "id": id, "deleted": true }))?;
    }
    Ok(())
}

impl One {
    fn path(&self, rest: &str) -> String {
        subscription_path(&self.queue, &self.subscription) + rest
    }
}

impl Several {
    fn path(&self, id: &str) -> String {
        subscription_path(&self.queue, id)
    }
}

fn subscription_path(queue: &str, id: &str) -> String {
    queue_path(queue, &format!("/subscriptions/{}", encode(id)))
}
