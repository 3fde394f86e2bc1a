//! The id of the request that a task works for. Everything that the task logs carries it.
//!
//! A span of `tracing` would do the same, but it is formatted for each request, and most requests
//! log nothing.

use std::fmt;
use std::future::Future;

use tokio::task_local;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

const PREFIX: &str = "req-";

task_local! {
    static CURRENT: RequestId;
}

/// The id of a request: `req-` and a random UUID, as in the APIs of `OpenStack`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId([u8; PREFIX.len() + Hyphenated::LENGTH]);

impl RequestId {
    /// Creates a random id.
    #[must_use]
    pub fn random() -> Self {
        let mut text = [0; PREFIX.len() + Hyphenated::LENGTH];
        let (prefix, uuid) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        Uuid::new_v4().hyphenated().encode_lower(uuid);
        Self(text)
    }

    /// Returns the id of the request that the current task works for, if there is one.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_get().ok()
    }

    /// Runs `work` as part of the request.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, work)
    }

    /// Returns the id in ASCII.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(str::from_utf8(&self.0).unwrap_or_default())
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RequestId({self})")
    }
}

/// Runs `work` as part of the request that the current task works for, if there is one.
pub async fn in_current_request<F: Future>(work: F) -> F::Output {
    match RequestId::current() {
        Some(id) => id.scope(work).await,
        None => work.await,
    }
}
