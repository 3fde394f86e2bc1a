//! Sets up the queues of a run: creates and fills them before it, deletes them after it.

use std::cell::RefCell;
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use hyper::StatusCode;

use super::connection::{Connection, Failure};
use super::error::Error;
use super::progress::Progress;
use super::server::Server;
use super::target::Outgoing;
use super::traffic::{Requests, Traffic};

/// Number of connections that send the requests.
const CONNECTIONS: usize = 8;
/// Maximum number of characters shown of the response that explains a failure.
const RESPONSE_CHARS_MAX: usize = 300;

/// The queues of a run.
pub(super) struct Setup {
    server: Server,
    traffic: Arc<Traffic>,
    /// The numbers of the queues that this run has created, because it deletes no others.
    created: RefCell<Vec<usize>>,
}

impl Setup {
    pub(super) fn new(server: &Server, traffic: &Arc<Traffic>) -> Self {
        Self { server: server.clone(), traffic: traffic.clone(), created: RefCell::default() }
    }

    /// Creates the queues that do not exist.
    pub(super) async fn create(&self, progress: &Progress) -> Result<(), Error> {
        progress.begin_phase("queues", self.traffic.queues().len() as u64);
        let requests = RefCell::new(self.traffic.queues().iter().enumerate());
        let client = async || {
            let mut connection = Connection::to(&self.server);
            while let Some((n, queue)) = next(&requests) {
                let what = || format!("cannot create queue {}", queue.name());
                let status = send(&mut connection, queue.create_queue()?, what).await?;
                if status == StatusCode::CREATED {
                    self.created.borrow_mut().push(n);
                }
                progress.advance();
            }
            Ok(())
        };
        try_join_all((0..CONNECTIONS).map(|_| client())).await.map(drop)
    }

    /// Posts the given number of messages, distributed evenly over the queues.
    pub(super) async fn fill(&self, messages: u64, progress: &Progress) -> Result<(), Error> {
        progress.begin_phase("messages", messages);
        let queues = self.traffic.queues();
        let (each, rest) = (messages / queues.len() as u64, messages % queues.len() as u64);
        let mut posts = Vec::new();
        for (n, queue) in (0..).zip(queues) {
            posts.push(queue.fill(each + u64::from(n < rest))?);
        }
        let posts = RefCell::new(posts.into_iter().flatten());
        let client = async || {
            let mut connection = Connection::to(&self.server);
            while let Some((messages, post)) = next(&posts) {
                send(&mut connection, post, || "cannot post messages".to_owned()).await?;
                progress.advance_by(messages);
            }
            Ok(())
        };
        try_join_all((0..CONNECTIONS).map(|_| client())).await.map(drop)
    }

    /// Deletes the queues that this run has created. Returns the names of those that are left.
    pub(super) async fn delete_queues(&self, progress: &Progress) -> Vec<String> {
        let created = self.created.take();
        progress.begin_phase("cleaning up", created.len() as u64);
        let queues = RefCell::new(created.iter().map(|n| &self.traffic.queues()[*n]));
        let left = RefCell::new(Vec::new());
        let client = async || {
            let mut connection = Connection::to(&self.server);
            while let Some(queue) = next(&queues) {
                if !delete(&mut connection, queue).await {
                    left.borrow_mut().push(queue.name().to_owned());
                }
                progress.advance();
            }
        };
        join_all((0..CONNECTIONS).map(|_| client())).await;
        left.into_inner()
    }
}

fn next<T>(items: &RefCell<impl Iterator<Item = T>>) -> Option<T> {
    items.borrow_mut().next()
}

async fn delete(connection: &mut Connection, queue: &Requests) -> bool {
    match queue.delete_queue() {
        Ok(request) => connection.exchange(request).await.is_ok(),
        Err(_) => false,
    }
}

async fn send(
    connection: &mut Connection,
    request: Outgoing,
    what: impl FnOnce() -> String,
) -> Result<StatusCode, Error> {
    connection.exchange(request).await.map_err(|failure| {
        let response = match failure {
            Failure::Status(_) => {
                String::from_utf8_lossy(connection.response_body()).chars().take(RESPONSE_CHARS_MAX).collect()
            }
            _ => String::new(),
        };
        Error::Setup { what: what(), failure, response }
    })
}
