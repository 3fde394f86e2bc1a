//! The connections to a server that serve only posts with a receipt, and the bound on such posts.

use std::sync::Arc;

use ahash::HashMap;
use bytes::Bytes;
use fred::bytes_utils::Str;
use fred::error::Error as FredError;
use fred::types::config::Config;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use super::functions::{is_missing, is_refused};
use super::receipt_connection::{Attempt, ReceiptConnection, ReceiptFailure, elapsed};
use crate::redis::library::Library;
use crate::redis::reply::Reply;
use crate::{Admission, Error, Permit};
use sukkal_base::memory_budget::{MemoryBudget, MemoryShare};
use sukkal_domain::{Durability, ProjectId};

/// Maximum number of connections to a server that wait for receipts of one level at the same time.
const CONNECTIONS_MAX: usize = 4;
/// Maximum number of posts to a server that wait for a receipt, including those that wait for one
/// of the connections. They have no permit of the admission. One project alone can have half of
/// them.
const RECEIPTS_MAX: usize = 512;

/// The result of a script that has run.
pub(in crate::redis) struct Receipt {
    pub(in crate::redis) reply: Reply,
    /// Whether its effects have reached the level of durability: `Ok`, or [`Error::NotDurable`].
    pub(in crate::redis) durability: Result<(), Error>,
}

/// The connections to one server that wait for receipts.
pub(super) struct Receipts {
    config: Config,
    free: Mutex<Vec<ReceiptConnection>>,
    /// The bounds on the connections in use. Each level has its own, because a level that is not
    /// reached occupies its connections until the time is over.
    levels: Mutex<HashMap<Durability, Arc<Admission>>>,
    /// Counts posts instead of bytes.
    posts: MemoryBudget,
}

impl Receipts {
    /// Connects to no server until a receipt is required.
    pub(super) fn new(config: Config) -> Self {
        Self { config, free: Mutex::default(), levels: Mutex::default(), posts: MemoryBudget::new(RECEIPTS_MAX) }
    }

    /// Calls the function once, and waits until its effects have reached the level. Projects take
    /// turns. A server that does not have or run the library gets it as a script.
    pub(super) async fn attempt(
        &self,
        project: &ProjectId,
        (library, function): (&Library, &Str),
        keys: &[String],
        args: &[Bytes],
        mark: &str,
        (level, deadline): (Durability, Instant),
    ) -> Attempt {
        let (_permit, connection) = self.take(project, level, deadline).await.map_err(ReceiptFailure::NotRun)?;
        let run = async |call, args: &[Bytes]| connection.run(call, keys, args, mark, (level, deadline)).await;
        let mut attempt = run(("FCALL", function), args).await;
        let has_not_run = |attempt: &Attempt, why: fn(&FredError) -> bool| matches!(attempt, Err(ReceiptFailure::NotRun(error)) if why(error));
        if has_not_run(&attempt, |error| is_missing(error) || is_refused(error)) {
            let args = [args, &[Bytes::copy_from_slice(function.as_bytes())]].concat();
            attempt = run(("EVALSHA", &library.script_sha), &args).await;
            if has_not_run(&attempt, is_missing) {
                attempt = run(("EVAL", &library.script), &args).await;
            }
        }
        // After any other failure, a new connection finds out again what the server can confirm.
        if matches!(attempt, Ok((_, Ok(()))) | Err(ReceiptFailure::TooFewReplicas(_))) {
            self.free.lock().push(connection);
        }
        attempt
    }

    /// Returns a permit for one post of this project that waits for a receipt.
    pub(super) fn permit(&self, project: &ProjectId) -> Result<MemoryShare, Error> {
        let share = self.posts.share(project);
        share.take(1).map_err(|_| Error::Overloaded)?;
        Ok(share)
    }

    /// Succeeds if the server can confirm the level, and has enough replicas for it.
    pub(super) async fn check(
        &self,
        project: &ProjectId,
        level: Durability,
        deadline: Instant,
    ) -> Result<(), ReceiptFailure> {
        let (_permit, connection) = self.take(project, level, deadline).await.map_err(ReceiptFailure::NotRun)?;
        connection.fsync_proof(level).map_err(ReceiptFailure::Unsupported)?;
        let checked = connection.require_replicas(level).await;
        if matches!(checked, Ok(()) | Err(ReceiptFailure::TooFewReplicas(_))) {
            self.free.lock().push(connection);
        }
        checked
    }

    /// Takes a free connection, or opens one. Waits while the level has the maximum number in use.
    /// All this ends at the deadline.
    async fn take(
        &self,
        project: &ProjectId,
        level: Durability,
        deadline: Instant,
    ) -> Result<(Permit, ReceiptConnection), FredError> {
        let admission = self.admission(level);
        let taken = async {
            let wait_max = deadline.saturating_duration_since(Instant::now());
            let permit = admission.acquire(project, wait_max).await.map_err(|_| elapsed())?;
            let free = std::iter::from_fn(|| self.free.lock().pop()).find(ReceiptConnection::is_connected);
            match free {
                Some(connection) => Ok((permit, connection)),
                None => Ok((permit, ReceiptConnection::open(&self.config).await?)),
            }
        };
        timeout_at(deadline, taken).await.unwrap_or_else(|_| Err(elapsed()))
    }

    fn admission(&self, level: Durability) -> Arc<Admission> {
        let mut levels = self.levels.lock();
        levels.entry(level).or_insert_with(|| Admission::new(CONNECTIONS_MAX)).clone()
    }
}
