//! The connections to a server that serve only posts with a receipt, and the bound on such posts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use fred::error::Error as FredError;
use fred::types::config::Config;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use super::receipt_connection::{Attempt, Failure, ReceiptConnection, elapsed};
use crate::domain::Durability;
use crate::storage::Error;
use crate::storage::redis::reply::Reply;
use crate::storage::redis::script::Script;

/// Maximum number of connections to a server that wait for receipts at the same time.
const CONNECTIONS_MAX: usize = 4;
/// Maximum number of posts to a server that wait for a receipt, including those that wait for one of
/// the connections. They have no permit of the admission.
const RECEIPTS_MAX: usize = 256;

/// The result of a script that has run.
pub(in crate::storage::redis) struct Receipt {
    pub(in crate::storage::redis) reply: Reply,
    /// Whether its effects have reached the level of durability: `Ok`, or [`Error::NotDurable`].
    pub(in crate::storage::redis) durability: Result<(), Error>,
}

/// The connections to one server that wait for receipts.
pub(super) struct Receipts {
    config: Config,
    free: Mutex<Vec<ReceiptConnection>>,
    connections: Semaphore,
    posts: Arc<Semaphore>,
}

impl Receipts {
    /// Connects to no server until a receipt is required.
    pub(super) fn new(config: Config) -> Self {
        let (connections, posts) = (Semaphore::new(CONNECTIONS_MAX), Arc::new(Semaphore::new(RECEIPTS_MAX)));
        Self { config, free: Mutex::default(), connections, posts }
    }

    /// Runs the script once, and waits until its effects have reached the level.
    pub(super) async fn attempt(
        &self,
        script: &Script,
        keys: &[String],
        args: &[Bytes],
        mark: &str,
        (level, deadline): (Durability, Instant),
    ) -> Attempt {
        let (_permit, connection) = self.take(deadline).await.map_err(Failure::NotRun)?;
        let mut attempt =
            connection.run(("EVALSHA", &script.rendered(false).sha), keys, args, mark, (level, deadline)).await;
        if let Err(Failure::NotRun(error)) = &attempt
            && error.details().starts_with("NOSCRIPT")
        {
            attempt = connection.run(("EVAL", &script.rendered(false).text), keys, args, mark, (level, deadline)).await;
        }
        // After any failure, a new connection finds out again what the server can confirm.
        if matches!(attempt, Ok((_, Ok(())))) {
            self.free().push(connection);
        }
        attempt
    }

    /// Returns a permit for one post that waits for a receipt.
    pub(super) fn permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.posts.clone().try_acquire_owned().map_err(|_| Error::Overloaded)
    }

    /// Succeeds if the server can confirm the level.
    pub(super) async fn check(&self, level: Durability, deadline: Instant) -> Result<(), Failure> {
        let (_permit, connection) = self.take(deadline).await.map_err(Failure::NotRun)?;
        connection.fsync_proof(level).map_err(Failure::Unsupported)?;
        self.free().push(connection);
        Ok(())
    }

    /// Takes a free connection, or opens one. Waits while the maximum number is in use. All this ends
    /// at the deadline.
    async fn take(&self, deadline: Instant) -> Result<(SemaphorePermit<'_>, ReceiptConnection), FredError> {
        let taken = async {
            let permit = self.connections.acquire().await.expect("the semaphore is never closed");
            let free = std::iter::from_fn(|| self.free().pop()).find(ReceiptConnection::is_connected);
            match free {
                Some(connection) => Ok((permit, connection)),
                None => Ok((permit, ReceiptConnection::open(&self.config).await?)),
            }
        };
        timeout_at(deadline, taken).await.unwrap_or_else(|_| Err(elapsed()))
    }

    fn free(&self) -> MutexGuard<'_, Vec<ReceiptConnection>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
