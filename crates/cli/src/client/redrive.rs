//! `sukkal dead redrive`: moves dead letters back, and shows how far the service is.

use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::arguments::{document, limit, segment};
use super::error::Error;
use super::http::{Service, encode, queue_path};
use super::output::{Output, count, counted, inline};
use super::table::{Align, Cell, Color, Column};

/// How often the state of a task is requested.
const POLL: Duration = Duration::from_millis(200);
const BAR: &str = "{bar:40.green/dim} {human_pos} of {human_len}, {eta} left";

/// Moves dead letters back to the queues that they came from
///
/// The service moves the messages in a task of its own. This command shows its progress and ends
/// with it. After Ctrl-C, the task continues: `sukkal dead stop` stops it. Claimed messages and
/// messages without an existing origin stay.
#[derive(Args, Debug)]
pub struct Options {
    /// Dead-letter queue
    #[arg(value_parser = segment)]
    queue: String,
    /// Queue to move the messages to [default: the queue that each message came from]
    #[arg(long, value_name = "QUEUE")]
    to: Option<String>,
    /// Move only the message with this id. May be repeated
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Maximum number of messages to move
    #[arg(long, value_name = "N", value_parser = limit, conflicts_with = "id")]
    limit: Option<u64>,
    /// Maximum number of messages to move in a second
    #[arg(long, value_name = "N")]
    per_second: Option<u64>,
    /// Start the task without waiting for its end
    #[arg(long)]
    detach: bool,
}

impl Options {
    fn document(&self) -> Value {
        let ids = Some(&self.id).filter(|ids| !ids.is_empty());
        document([
            ("to", self.to.as_ref().map(|to| json!(to))),
            ("ids", ids.map(|ids| json!(ids))),
            ("limit", self.limit.map(Value::from)),
            ("per_second", self.per_second.map(Value::from)),
        ])
    }
}

pub(super) async fn run(options: &Options, service: &Service, output: &mut Output) -> Result<(), Error> {
    let request = service.request(Method::POST, &queue_path(&options.queue, "/redrive"));
    let response = request.json(&options.document()).send().await?;
    let path = response.header("location").filter(|path| path.starts_with("/v2/")).map(str::to_owned);
    let path = path.ok_or_else(|| Error::Failed("the response has no Location".to_owned()))?;
    if options.detach {
        let id = path.rsplit('/').next().unwrap_or_default();
        return output.done(&format!("started task {id}"), &json!({ "id": id, "href": path }));
    }
    let task = follow(&path, service).await?;
    let (moved, skipped) = (task["moved"].as_u64().unwrap_or_default(), task["skipped"].as_u64().unwrap_or_default());
    let why = match options.to {
        Some(_) => "claimed",
        None => "claimed, or without a queue to return to: --to names one",
    };
    let sentence = match skipped {
        0 => format!("moved {}", counted(moved, "message")),
        _ => format!("moved {}, skipped {} ({why})", counted(moved, "message"), count(&skipped.into())),
    };
    output.done(&sentence, &task)?;
    match task["state"].as_str() {
        Some("done") => Ok(()),
        Some("stopped") => Err(Error::Failed("the task was stopped before its end".to_owned())),
        _ => Err(Error::Failed(format!("the task has failed: {}", inline(&task["error"], true)))),
    }
}

/// Waits until a task has ended, and returns it. Shows a bar on stderr if that is a terminal.
async fn follow(path: &str, service: &Service) -> Result<Value, Error> {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(BAR).expect("the template is valid").progress_chars("━╸─"));
    loop {
        let task = service.get(path).await?;
        let number = |name: &str| task[name].as_u64().unwrap_or_default();
        let gone = number("moved").saturating_add(number("skipped"));
        bar.set_length(gone.saturating_add(number("remaining")));
        bar.set_position(gone);
        if task["state"] != "running" {
            bar.finish_and_clear();
            return Ok(task);
        }
        sleep(POLL).await;
    }
}

const TASKS: [Column; 7] = [
    ("ID", Align::Left, |task| inline(&task["id"], true).into()),
    ("STATE", Align::Left, |task| {
        Cell::colored(inline(&task["state"], true), (task["state"] == "failed").then_some(Color::Red))
    }),
    ("MOVED", Align::Right, |task| count(&task["moved"]).into()),
    ("SKIPPED", Align::Right, |task| count(&task["skipped"]).into()),
    ("REMAINING", Align::Right, |task| count(&task["remaining"]).into()),
    ("CREATED", Align::Left, |task| inline(&task["created"], true).into()),
    ("ERROR", Align::Left, |task| inline(&task["error"], true).into()),
];

/// Lists the tasks of a queue.
pub(super) async fn ls(queue: &str, service: &Service, output: &mut Output) -> Result<(), Error> {
    output.list(&TASKS, &service.get(&queue_path(queue, "/tasks")).await?["tasks"])
}

/// Stops a running task, or removes one that has ended.
pub(super) async fn stop(queue: &str, task: &str, service: &Service, output: &mut Output) -> Result<(), Error> {
    let path = queue_path(queue, &format!("/tasks/{}", encode(task)));
    let is_running = service.get(&path).await?["state"] == "running";
    // A second request would remove the task that the first one has stopped.
    service.request(Method::DELETE, &path).once().send().await?;
    let done = if is_running { "stopped" } else { "removed" };
    output.done(&format!("{done} task {task}"), &json!({ "id": task, done: true }))
}
