//! The id of the request that a task works for, the request's span if it is traced, and its trail
//! if there is an audit log. Everything that the task logs carries the id.
//!
//! A span of `tracing` would do the same as the id, but it is formatted for each request, and most
//! requests log nothing.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use tokio::task_local;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

use crate::observability::audit::Trail;
use crate::observability::telemetry::Span;

const PREFIX: &str = "req-";

task_local! {
    static CURRENT: CurrentRequest;
}

/// The request that a task works for.
#[derive(Clone)]
struct CurrentRequest {
    id: RequestId,
    span: Option<Span>,
    trail: Option<Arc<Trail>>,
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
        CURRENT.try_with(|request| request.id).ok()
    }

    /// Runs `work` as part of the request, which has this span if it is traced, and this trail if
    /// there is an audit log.
    pub fn scope<F: Future>(
        self,
        span: Option<Span>,
        trail: Option<Arc<Trail>>,
        work: F,
    ) -> impl Future<Output = F::Output> {
        CURRENT.scope(CurrentRequest { id: self, span, trail }, work)
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

/// Returns what `read` returns for the span of the request that the current task works for. Returns
/// `None` if the request is not traced.
pub fn with_current_span<T>(read: impl FnOnce(&Span) -> T) -> Option<T> {
    CURRENT.try_with(|request| request.span.as_ref().map(read)).ok().flatten()
}

/// Returns the trail of the request that the current task works for; `None` without an audit log.
#[must_use]
pub fn current_trail() -> Option<Arc<Trail>> {
    CURRENT.try_with(|request| request.trail.clone()).ok().flatten()
}

/// Returns `work` as part of the request that the current task works for, if there is one. So
/// `work` can run in a task of its own.
pub fn in_current_request<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let current = CURRENT.try_get().ok();
    async move {
        match current {
            Some(request) => CURRENT.scope(request, work).await,
            None => work.await,
        }
    }
}
