//! The queues of a run: created and filled before, deleted after.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use hyper::StatusCode;

use super::Error;
use super::connection::{Connection, Failure};
use super::progress::Progress;
use super::target::Outgoing;
use super::traffic::{Requests, Traffic};

/// Connections, side by side.
const LANES: usize = 8;
/// How much of an answer is shown that says why a request failed.
const ANSWER_CHARS_MAX: usize = 300;

/// The queues of a run.
pub(super) struct Stage {
    address: SocketAddr,
    traffic: Arc<Traffic>,
    /// Which queues this run has created, so that it deletes no others.
    created: RefCell<Vec<usize>>,
}

impl Stage {
    pub(super) fn new(address: SocketAddr, traffic: &Arc<Traffic>) -> Self {
        Self { address, traffic: traffic.clone(), created: RefCell::default() }
    }

    /// Creates the queues that are not there.
    pub(super) async fn create(&self, progress: &Progress) -> Result<(), Error> {
        progress.stage("queues", self.traffic.queues().len() as u64);
        let requests = RefCell::new(self.traffic.queues().iter().enumerate());
        let lane = async || {
            let mut connection = Connection::to(self.address);
            while let Some((n, queue)) = next(&requests) {
                let what = || format!("queue {} cannot be created", queue.name());
                let status = send(&mut connection, queue.create()?, what).await?;
                if status == StatusCode::CREATED {
                    self.created.borrow_mut().push(n);
                }
                progress.step();
            }
            Ok(())
        };
        try_join_all((0..LANES).map(|_| lane())).await.map(drop)
    }

    /// Posts so many messages, as many to each queue.
    pub(super) async fn fill(&self, messages: u64, progress: &Progress) -> Result<(), Error> {
        progress.stage("messages", messages);
        let queues = self.traffic.queues();
        let (each, more) = (messages / queues.len() as u64, messages % queues.len() as u64);
        let mut posts = Vec::new();
        for (n, queue) in (0..).zip(queues) {
            posts.push(queue.fill(each + u64::from(n < more))?);
        }
        let posts = RefCell::new(posts.into_iter().flatten());
        let lane = async || {
            let mut connection = Connection::to(self.address);
            while let Some((messages, post)) = next(&posts) {
                send(&mut connection, post, || "messages cannot be posted".to_owned()).await?;
                progress.steps(messages);
            }
            Ok(())
        };
        try_join_all((0..LANES).map(|_| lane())).await.map(drop)
    }

    /// Deletes the queues that this run has created; says which are left.
    pub(super) async fn clear(&self, progress: &Progress) -> Vec<String> {
        let created = self.created.take();
        progress.stage("clearing up", created.len() as u64);
        let queues = RefCell::new(created.iter().map(|n| &self.traffic.queues()[*n]));
        let left = RefCell::new(Vec::new());
        let lane = async || {
            let mut connection = Connection::to(self.address);
            while let Some(queue) = next(&queues) {
                if !delete(&mut connection, queue).await {
                    left.borrow_mut().push(queue.name().to_owned());
                }
                progress.step();
            }
        };
        join_all((0..LANES).map(|_| lane())).await;
        left.into_inner()
    }
}

fn next<T>(items: &RefCell<impl Iterator<Item = T>>) -> Option<T> {
    items.borrow_mut().next()
}

async fn delete(connection: &mut Connection, queue: &Requests) -> bool {
    match queue.remove() {
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
        let answer = match failure {
            Failure::Status(_) => String::from_utf8_lossy(connection.answer()).chars().take(ANSWER_CHARS_MAX).collect(),
            _ => String::new(),
        };
        Error::Setup { what: what(), failure, answer }
    })
}
