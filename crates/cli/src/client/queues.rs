//! The list of a project's queues, from services with and without statistics.

use serde_json::Value;

use super::error::Error;
use super::http::{Service, query};
use super::output::printable;
use super::pages::Pages;

/// The queues whose names begin with a text, in order, with statistics if the service has them.
pub(super) struct QueueList<'s> {
    pages: Pages<'s>,
    /// The list with the parameters that every service has. Other services take the new ones for
    /// filters, which no queue matches.
    fallback: Option<Pages<'s>>,
    prefix: String,
    remaining: usize,
}

impl<'s> QueueList<'s> {
    /// Prepares a list of at most `limit` queues, with their metadata if it is `detailed`.
    pub(super) fn new(service: &'s Service, prefix: &str, detailed: bool, limit: Option<u64>) -> Self {
        let text = Some(prefix.to_owned()).filter(|prefix| !prefix.is_empty());
        let detailed = detailed.then(|| "true".to_owned());
        let with_stats = Some("true".to_owned());
        let path = query([("name_prefix", text.clone()), ("detailed", detailed.clone()), ("with_stats", with_stats)]);
        let fallback = query([("name", text), ("detailed", detailed)]);
        Self {
            pages: Pages::new(service, service.plural(), format!("/v2/queues{path}"), limit),
            fallback: Some(Pages::new(service, service.plural(), format!("/v2/queues{fallback}"), None)),
            prefix: prefix.to_owned(),
            remaining: limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX),
        }
    }

    /// Returns the next queues, or `None` after the last ones.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, Error> {
        while self.remaining > 0 {
            let Some(mut queues) = self.pages.next().await? else {
                let Some(fallback) = self.fallback.take() else { return Ok(None) };
                self.pages = fallback;
                continue;
            };
            queues.retain(|queue| queue["name"].as_str().is_some_and(|name| name.starts_with(&self.prefix)));
            queues.truncate(self.remaining);
            if !queues.is_empty() {
                self.remaining -= queues.len();
                self.fallback = None;
                return Ok(Some(queues));
            }
        }
        Ok(None)
    }

    /// Returns the queue with this name and its metadata.
    pub(super) async fn find(service: &Service, name: &str) -> Result<Value, Error> {
        // A queue comes before the others that begin with its name.
        let first = QueueList::new(service, name, true, Some(1)).next().await?.unwrap_or_default().into_iter().next();
        first
            .filter(|queue| queue["name"] == name)
            .ok_or_else(|| Error::NotFound(format!("there is no {} {}", service.noun(), printable(name))))
    }
}
