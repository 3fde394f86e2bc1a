//! `sukkal message post`: posts arguments or the lines of stdin in batches.

use std::io::{self, IsTerminal};

use clap::Args;
use reqwest::Method;
use reqwest::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::arguments::segment;
use super::error::Error;
use super::http::{Service, queue_path};
use super::input::{Draft, Input};
use super::output::{Output, counted};
use crate::duration::seconds;
use crate::exit::print_message;

const DURABILITY: HeaderName = HeaderName::from_static("durability");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Posts messages: arguments, or each line of stdin
///
/// Each body is posted as a JSON string, unless --json-bodies is given. Lines are posted in batches
/// as soon as they arrive. A batch that the service refuses is divided until it is clear which
/// message is wrong; the messages before it are posted. A batch whose answer is lost is repeated
/// with the same Idempotency-Key, so Sukkal stores it once.
#[derive(Args, Debug)]
pub struct Options {
    #[arg(value_parser = segment)]
    queue: String,
    /// Bodies of the messages [default: the lines of stdin]
    #[arg(value_name = "BODY")]
    bodies: Vec<String>,
    /// Each body is a JSON value
    #[arg(long)]
    json_bodies: bool,
    /// Time to live of the messages, after which they expire [default: that of the queue, usually
    /// 3600]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    ttl: Option<u64>,
    /// Delay of the messages, for queues that delay messages [default: that of the queue]
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    delay: Option<u64>,
    /// What the messages must have reached before the post succeeds: fsync, or replicas=N [default:
    /// that of the queue]
    #[arg(long, value_name = "DURABILITY")]
    durability: Option<HeaderValue>,
    /// Tenant of the messages, for fair queues
    #[arg(long, value_name = "NAME")]
    tenant: Option<String>,
}

pub(super) async fn run(options: &Options, service: &Service, output: &mut Output) -> Result<(), Error> {
    let input = Input::new(options.bodies.clone(), options.json_bodies);
    let item = input.item();
    if options.bodies.is_empty() && io::stdin().is_terminal() {
        print_message("each line is a message; end with Ctrl-D");
    }
    let mut poster = Poster {
        path: queue_path(&options.queue, "/messages"),
        item,
        rest: options.rest(),
        durability: options.durability.clone(),
        service,
        output,
        posted: 0,
    };
    let outcome = poster.post_all(input).await;
    let (count, queue) = (poster.posted, &options.queue);
    match outcome {
        Ok(()) if output.is_json() => Ok(()),
        Ok(()) => output.line(&format!("posted {} to {queue}", counted(count, "message"))),
        Err(error) if error.is_closed_output() => Err(error),
        Err(error) => Err(error.with_text(|text| format!("{text}; {} posted", counted(count, "message")))),
    }
}

impl Options {
    /// The keys of each message after its body, as JSON.
    fn rest(&self) -> String {
        let keys = [
            ("ttl", self.ttl.map(Value::from)),
            ("delay", self.delay.map(Value::from)),
            ("tenant", self.tenant.clone().map(Value::from)),
        ];
        keys.into_iter().filter_map(|(key, value)| Some(format!(r#","{key}":{}"#, value?))).collect()
    }
}

struct Poster<'a> {
    path: String,
    /// The name of an item of the input.
    item: &'static str,
    rest: String,
    durability: Option<HeaderValue>,
    service: &'a Service,
    output: &'a mut Output,
    /// Number of messages posted.
    posted: u64,
}

impl Poster<'_> {
    async fn post_all(&mut self, mut input: Input) -> Result<(), Error> {
        loop {
            // On another thread, so that this one notices when the idle connection is closed.
            let read = spawn_blocking(move || (input.next_batch(), input)).await;
            let (batch, rest) = read.map_err(|error| Error::Failed(error.to_string()))?;
            let batch = batch?;
            if batch.is_empty() {
                return Ok(());
            }
            self.post_batch(&batch).await?;
            input = rest;
        }
    }

    /// Posts a batch. If the service refuses it, the halves are posted, and so on until the message
    /// that is wrong, or until a limit of the service is met.
    async fn post_batch(&mut self, batch: &[Draft]) -> Result<(), Error> {
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            match self.post(part).await {
                Ok(()) => {}
                Err(Error::Refused { status: 400 | 413, .. }) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(error) => return Err(error.with_text(|text| format!("{}: {text}", self.name(part)))),
            }
        }
        Ok(())
    }

    async fn post(&mut self, part: &[Draft]) -> Result<(), Error> {
        let messages: Vec<String> =
            part.iter().map(|draft| format!(r#"{{"body":{}{}}}"#, draft.body, self.rest)).collect();
        let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
        let key = HeaderValue::try_from(Uuid::new_v4().to_string()).expect("a UUID is visible ASCII");
        let request = self.service.request(Method::POST, &self.path).body(body.into(), "application/json");
        let request = match &self.durability {
            Some(durability) => request.header(DURABILITY, durability.clone()),
            None => request,
        };
        let receipt = request.header(IDEMPOTENCY_KEY, key).repeatable().send().await?.json()?;
        self.posted += part.len() as u64;
        if self.output.is_json() {
            for href in receipt["resources"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                let id = href.rsplit('/').next();
                self.output.document(&json!({ "id": id, "href": href }))?;
            }
            self.output.flush()?;
        }
        Ok(())
    }

    /// Names the part of the input for an error.
    fn name(&self, part: &[Draft]) -> String {
        match part {
            [first, .., last] => format!("{}s {} to {}", self.item, first.number, last.number),
            [only] => format!("{} {}", self.item, only.number),
            [] => String::new(),
        }
    }
}
