//! `sukkal claim`: claims messages, lists, renews and releases claims, and returns single messages.

use clap::{Args, Subcommand};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::arguments::{document, limit, segment};
use super::error::Error;
use super::http::{Service, encode, query, queue_path};
use super::output::{Output, count, counted, duration_of, inline, printable};
use super::pages::Pages;
use super::response::Response;
use super::table::{Align, Column};
use super::view::MESSAGES;
use crate::duration::seconds;

const COLUMNS: [Column; 6] = [
    ("ID", Align::Left, |claim| inline(&claim["id"], true).into()),
    ("CLIENT", Align::Left, |claim| inline(&claim["client_id"], true).into()),
    ("MESSAGES", Align::Right, |claim| count(&claim["messages"]).into()),
    ("AGE", Align::Right, |claim| duration_of(&claim["age"]).into()),
    ("TTL", Align::Right, |claim| duration_of(&claim["ttl"]).into()),
    ("FENCE", Align::Right, |claim| inline(&claim["fence"], true).into()),
];

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Claims messages. The exit code is 3 if none is available
    ///
    /// Until the claim expires or is released, nobody else gets its messages. Delete each message
    /// when its work is done: `sukkal message rm QUEUE ID --claim CLAIM`.
    #[command(alias = "create")]
    Take {
        #[arg(value_parser = segment)]
        queue: String,
        /// Maximum number of messages
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
        /// How long to wait for a message if none is available
        #[arg(long, value_name = "DURATION", value_parser = seconds)]
        wait: Option<u64>,
        #[command(flatten)]
        term: Term,
    },
    /// Lists the live claims of a queue
    #[command(alias = "list")]
    Ls {
        #[arg(value_parser = segment)]
        queue: String,
        /// Maximum number of claims
        #[arg(long, value_name = "N", value_parser = limit)]
        limit: Option<u64>,
    },
    /// Renews a claim: it lasts for --ttl from now
    ///
    /// Without --ttl, it lasts for the default TTL of the service from now. That may end the claim
    /// earlier than before.
    Renew {
        #[arg(value_parser = segment)]
        queue: String,
        #[arg(value_parser = segment)]
        claim: String,
        #[command(flatten)]
        term: Term,
    },
    /// Makes single messages of a claim available again. The claim keeps the others
    Return {
        #[arg(value_parser = segment)]
        queue: String,
        #[arg(value_parser = segment)]
        claim: String,
        #[arg(required = true, value_name = "ID", value_parser = segment)]
        ids: Vec<String>,
        /// Time after which the messages are available [default: 0]
        #[arg(long, value_name = "DURATION", value_parser = seconds)]
        delay: Option<u64>,
    },
    /// Makes the remaining messages of claims available again
    Release {
        #[arg(value_parser = segment)]
        queue: String,
        #[arg(required = true, value_name = "CLAIM", value_parser = segment)]
        claims: Vec<String>,
    },
}

#[derive(Args, Debug)]
pub struct Term {
    /// How long the claim lasts [default: as the service is configured, usually 300]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    ttl: Option<u64>,
    /// How long messages outlive the claim if they would expire before it [default: as the service
    /// is configured, usually 60]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    grace: Option<u64>,
}

impl Term {
    fn document(&self) -> Value {
        document([("ttl", self.ttl.map(Value::from)), ("grace", self.grace.map(Value::from))])
    }
}

pub(super) async fn run(command: &Command, service: &Service, output: &mut Output) -> Result<(), Error> {
    match command {
        Command::Take { queue, limit, wait, term } => take(queue, *limit, *wait, term, service, output).await,
        Command::Ls { queue, limit } => {
            Pages::new(service, "claims", queue_path(queue, "/claims"), *limit).print(&COLUMNS, output).await
        }
        Command::Renew { queue, claim, term } => renew(queue, claim, term, service, output).await,
        Command::Return { queue, claim, ids, delay } => give_back(queue, claim, ids, *delay, service, output).await,
        Command::Release { queue, claims } => release(queue, claims, service, output).await,
    }
}

async fn take(
    queue: &str,
    limit: Option<u64>,
    wait: Option<u64>,
    term: &Term,
    service: &Service,
    output: &mut Output,
) -> Result<(), Error> {
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    let parameters =
        query([("limit", number(limit)), ("wait", number(wait)), ("include_origin", Some("true".to_owned()))]);
    let path = queue_path(queue, &format!("/claims{parameters}"));
    let response =
        service.request(Method::POST, &path).json(&term.document()).waits(wait.unwrap_or_default()).send().await?;
    if response.status == StatusCode::NO_CONTENT {
        return Err(Error::NotFound(format!("queue {queue} has no available message")));
    }
    let href = response.header("location").unwrap_or_default().to_owned();
    let id = href.rsplit('/').next().unwrap_or_default().to_owned();
    let fence = fence(&response);
    let messages = response.json()?["messages"].take();
    if output.is_json() {
        return output.document(&json!({ "id": id, "href": href, "fence": fence, "messages": messages }));
    }
    let number = messages.as_array().map_or(0, Vec::len) as u64;
    let fence = fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    output.line(&format!("claim {} has {}{fence}", printable(&id), counted(number, "message")))?;
    output.list(&MESSAGES, &messages)
}

async fn renew(queue: &str, claim: &str, term: &Term, service: &Service, output: &mut Output) -> Result<(), Error> {
    let request = service.request(Method::PATCH, &claim_path(queue, claim)).json(&term.document());
    let fence = fence(&request.repeatable().send().await?);
    output.done(&format!("renewed claim {claim}"), &json!({ "id": claim, "renewed": true, "fence": fence }))
}

async fn give_back(
    queue: &str,
    claim: &str,
    ids: &[String],
    delay: Option<u64>,
    service: &Service,
    output: &mut Output,
) -> Result<(), Error> {
    // The service ignores a message that is not under the claim.
    let held = service.get(&claim_path(queue, claim)).await?["messages"].take();
    let is_held = |id: &str| held.as_array().into_iter().flatten().any(|message| message["id"] == id);
    for id in ids {
        if !is_held(id) {
            return Err(Error::NotFound(format!("message {id} is not under claim {claim}")));
        }
        let delay = query([("delay", delay.map(|delay| delay.to_string()))]);
        let path = format!("{}/messages/{}{delay}", claim_path(queue, claim), encode(id));
        service.request(Method::DELETE, &path).send().await?;
        output.done(&format!("returned message {id}"), &json!({ "id": id, "returned": true }))?;
    }
    Ok(())
}

async fn release(queue: &str, claims: &[String], service: &Service, output: &mut Output) -> Result<(), Error> {
    for claim in claims {
        let path = claim_path(queue, claim);
        service.delete(&path).await?;
        output.done(&format!("released claim {claim}"), &json!({ "id": claim, "released": true }))?;
    }
    Ok(())
}

/// The fencing token of a claim, if the service has them.
fn fence(response: &Response) -> Option<u64> {
    response.header("claim-fence")?.parse().ok()
}

fn claim_path(queue: &str, claim: &str) -> String {
    queue_path(queue, &format!("/claims/{}", encode(claim)))
}
