//! Sets up the queues of a run: creates and fills them before it, deletes them after it.

use std::cell::RefCell;

use bytes::Bytes;
use futures::future::try_join_all;
use hyper::{Response, StatusCode};

use super::connection::{LoadConnection, LoadFailure, Outgoing, Server};
use super::error::Error;
use super::requests::Requests;

/// Number of connections that send the requests.
const CONNECTIONS: usize = 8;
/// Maximum number of characters shown of the response that explains a failure.
const RESPONSE_CHARS_MAX: usize = 300;

/// The queues of a run.
pub(super) struct Setup<'a> {
    pub(super) server: &'a Server,
    pub(super) requests: &'a Requests,
    /// The names of the queues that this run has created, because it deletes no others.
    pub(super) created: RefCell<Vec<&'a str>>,
}

impl Setup<'_> {
    /// Creates the queues that do not exist, and posts the given number of messages.
    pub(super) async fn prepare(&self, messages: usize) -> Result<(), Error> {
        let requests = self.requests;
        let queues = requests.queues().iter().map(|queue| (queue.as_str(), requests.create_queue(queue)));
        let create = |queue, outcome| {
            if checked(outcome, || format!("cannot create queue {queue}"))? == StatusCode::CREATED {
                self.created.borrow_mut().push(queue);
            }
            Ok(())
        };
        self.send_all(queues, create).await?;

        let posted = |(), outcome| checked(outcome, || "cannot post messages".to_owned()).map(drop);
        self.send_all(requests.fill(messages).map(|post| ((), post)), posted).await
    }

    /// Deletes the queues that this run has created. Returns the names of those that are left.
    pub(super) async fn delete_queues(&self) -> Vec<String> {
        let created = self.created.take();
        let left = RefCell::new(Vec::new());
        let requests = created.into_iter().map(|queue| (queue, self.requests.delete_queue(queue)));
        let deleted = |queue: &str, outcome| {
            if checked(outcome, String::new).is_err() {
                left.borrow_mut().push(queue.to_owned());
            }
            Ok(())
        };
        // The failures are in `left`.
        let _ok = self.send_all(requests, deleted).await;
        left.into_inner()
    }

    /// Sends requests, and passes each outcome to `done`, until it fails.
    async fn send_all<T>(
        &self,
        requests: impl Iterator<Item = (T, Result<Outgoing, LoadFailure>)>,
        done: impl Fn(T, Result<Response<Bytes>, LoadFailure>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let requests = RefCell::new(requests);
        let next = || requests.borrow_mut().next();
        let client = async || {
            let mut connection = LoadConnection::to(self.server);
            while let Some((about, request)) = next() {
                done(about, connection.exchange(request).await)?;
            }
            Ok(())
        };
        try_join_all((0..CONNECTIONS).map(|_| client())).await.map(drop)
    }
}

fn checked(outcome: Result<Response<Bytes>, LoadFailure>, what: impl FnOnce() -> String) -> Result<StatusCode, Error> {
    match outcome {
        Ok(response) if response.status().is_success() => Ok(response.status()),
        Ok(response) => {
            let reason: String = String::from_utf8_lossy(response.body()).chars().take(RESPONSE_CHARS_MAX).collect();
            let separator = if reason.is_empty() { "" } else { ", " };
            Err(Error::Setup(format!("{}: {}{separator}{reason}", what(), response.status().as_u16())))
        }
        Err(failure) => Err(Error::Setup(format!("{}: {failure}", what()))),
    }
}
