//! `sukkal message tail`: follows the feed of a queue, each message once, over any number of
//! connections.

use std::time::Duration;

use clap::Args;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{Method, Response};
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::arguments::{limit, segment};
use super::error::Error;
use super::events::{EVENT_BYTES_MAX, Event, Events};
use super::http::{Service, query, queue_path};
use super::output::{Output, inline};
use super::pages::{next_link, parameter};
use crate::exit::print_message;

const NOW: &str = "now";
const EVENT_STREAM: &str = "text/event-stream";
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// A stream without even a heartbeat for this time counts as lost. The service sends one every 15
/// seconds by default.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Follows a queue: prints new messages as they arrive
///
/// Each message is printed once and in order. If the connection is lost, the command connects again
/// and continues after the last message. Claimed messages are included. Ctrl-C ends the command
/// with the exit code 130.
#[derive(Args, Debug)]
pub struct Options {
    #[arg(value_parser = segment)]
    queue: String,
    /// Start with the oldest message
    #[arg(long, conflicts_with_all = ["since", "after"])]
    all: bool,
    /// Start at a time, such as 2026-11-22T12:00:00Z [default: now]
    #[arg(long, value_name = "TIME", conflicts_with = "after")]
    since: Option<String>,
    /// Start after the message with this id
    #[arg(long, value_name = "ID")]
    after: Option<String>,
    /// End after this number of messages
    #[arg(long, value_name = "N", value_parser = limit)]
    limit: Option<u64>,
}

pub(super) async fn run(options: &Options, service: &Service, output: &mut Output) -> Result<(), Error> {
    service.warn_if_missing(&options.queue).await;
    let mut tail = Tail { position: Position::Start, remaining: options.limit.unwrap_or(u64::MAX), output };
    tail.position = match (&options.after, &options.since) {
        (Some(id), _) => Position::After(id.clone()),
        // A moment that every connection would understand differently is not a position.
        (None, Some(time)) if time != NOW => Position::Since(time.clone()),
        (None, None) if options.all => Position::Start,
        (None, _) => tail.now(&options.queue, service).await?,
    };
    let mut pause = FIRST_PAUSE;
    // Before the first connection, a failure is reported at once, as by every other command.
    let mut was_connected = false;
    let mut is_reported = false;
    while tail.remaining > 0 {
        let lost = match tail.connect(&options.queue, service).await {
            Ok(stream) => {
                let before = tail.remaining;
                let lost = tail.follow(stream, service).await?;
                was_connected = true;
                if tail.remaining < before {
                    (pause, is_reported) = (FIRST_PAUSE, false);
                }
                lost
            }
            Err(Error::Unavailable(reason)) if was_connected => reason,
            Err(error) => return Err(error),
        };
        if tail.remaining > 0 {
            if !is_reported {
                print_message(&format!("{lost}; connecting again"));
                is_reported = true;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
    Ok(())
}

/// Where the next connection starts.
#[derive(Clone, Debug)]
enum Position {
    Start,
    Since(String),
    After(String),
}

struct Tail<'o> {
    position: Position,
    /// How many messages are still wanted.
    remaining: u64,
    output: &'o mut Output,
}

impl Tail<'_> {
    /// Returns the position after the newest message, so that a connection that is lost before the
    /// first event does not skip messages.
    async fn now(&mut self, queue: &str, service: &Service) -> Result<Position, Error> {
        let parameters = parameters(&Position::Since(NOW.to_owned()));
        let page = service.get(&queue_path(queue, &format!("/messages{parameters}"))).await?;
        let mut position = next_link(&page).and_then(|link| parameter(&link, "since")).map(Position::Since);
        // Messages that were posted during the request.
        for message in page["messages"].as_array().into_iter().flatten() {
            self.show(message)?;
            position = message["id"].as_str().map(|id| Position::After(id.to_owned()));
        }
        self.output.flush()?;
        position.ok_or_else(|| Error::Failed(format!("{} cannot list new messages only; use --all", service.url())))
    }

    async fn connect(&self, queue: &str, service: &Service) -> Result<Response, Error> {
        let path = queue_path(queue, &format!("/messages{}", parameters(&self.position)));
        let mut request = service.request(Method::GET, &path).header(ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        if let Position::After(id) = &self.position {
            let invalid = |_| Error::Usage(format!("{id:?} is not the id of a message"));
            request = request.header(LAST_EVENT_ID, HeaderValue::try_from(id).map_err(invalid)?);
        }
        // The command itself connects again and again.
        let response = request.repeated_for(Duration::ZERO).open().await?;
        let media_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if media_type.starts_with(EVENT_STREAM) {
            Ok(response)
        } else {
            Err(Error::Failed(format!("{} has no event streams", service.url())))
        }
    }

    /// Prints the messages of a connection. Returns why the connection has ended.
    async fn follow(&mut self, mut stream: Response, service: &Service) -> Result<String, Error> {
        let mut events = Events::default();
        loop {
            let part = match timeout(SILENCE_MAX, stream.chunk()).await {
                Ok(Ok(Some(part))) => part,
                Ok(Err(error)) => return Ok(service.lost(&error.into()).to_string()),
                Ok(Ok(None)) => return Ok(format!("{} has ended the stream", service.url())),
                Err(_) => return Ok(format!("{} has been silent for {} s", service.url(), SILENCE_MAX.as_secs())),
            };
            events.extend(&part);
            while let Some(event) = events.next() {
                self.accept(event)?;
                if self.remaining == 0 {
                    return Ok(String::new());
                }
            }
            if events.is_too_long() {
                return Err(Error::Failed(format!(
                    "an event of {} is longer than {EVENT_BYTES_MAX} bytes",
                    service.url()
                )));
            }
            self.output.flush()?;
        }
    }

    fn accept(&mut self, event: Event) -> Result<(), Error> {
        let unreadable = |error| Error::Failed(format!("the stream has an event that is not JSON: {error}"));
        let document: Value = serde_json::from_str(&event.data).map_err(unreadable)?;
        if event.kind == "failure" {
            return Err(Error::Failed(inline(&document["description"], true)));
        }
        self.show(&document)?;
        self.position = Position::After(event.id);
        Ok(())
    }

    fn show(&mut self, message: &Value) -> Result<(), Error> {
        self.remaining = self.remaining.saturating_sub(1);
        if self.output.is_json() {
            return self.output.document(message);
        }
        self.output.line(&format!("{}  {}", inline(&message["id"], true), inline(&message["body"], false)))
    }
}

/// The query for the messages after a position.
fn parameters(position: &Position) -> String {
    let since = match position {
        Position::Since(time) => Some(time.clone()),
        Position::Start | Position::After(_) => None,
    };
    query([("echo", Some("true".to_owned())), ("include_claimed", Some("true".to_owned())), ("since", since)])
}
