//! The id of the request that a task works for. Whatever is logged meanwhile carries it.
//!
//! A span of `tracing` would do the same, but it is written out for each request, and most requests log nothing.

use std::fmt;
use std::future::Future;

use tokio::task_local;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

const PREFIX: &str = "req-";

task_local! {
    static CURRENT: RequestId;
}

/// An id of one request, as in the APIs of `OpenStack`: `req-` and a random UUID.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RequestId([u8; PREFIX.len() + Hyphenated::LENGTH]);

impl RequestId {
    /// An id that no other request has.
    #[must_use]
    pub fn random() -> Self {
        let mut text = [0; PREFIX.len() + Hyphenated::LENGTH];
        let (prefix, uuid) = text.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX.as_bytes());
        Uuid::new_v4().hyphenated().encode_lower(uuid);
        Self(text)
    }

    /// The id of the request that the current task works for, if it does.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_get().ok()
    }

    /// Does this work for the request.
    pub fn scope<F: Future>(self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self, work)
    }

    /// The id as bytes of ASCII.
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

/// Does this work for the same request as the current task, if it works for one.
pub async fn in_current_request<F: Future>(work: F) -> F::Output {
    match RequestId::current() {
        Some(id) => id.scope(work).await,
        None => work.await,
    }
}
