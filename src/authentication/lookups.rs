//! What credentials prove, as a lookup of each has found out. Concurrent requests share a lookup,
//! which goes on if they disconnect. Anybody can invent credentials, so refused ones are remembered
//! apart from accepted ones, and displace none of them.

use std::collections::HashMap;
use std::future::Future;
use std::hash::Hash;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::time::Instant;

use crate::auth::AuthenticationError;
use crate::broker::cached::Cached;

/// Maximum number of accepted credentials that are remembered, and of refused ones.
pub(super) const REMEMBERED_MAX: usize = 10_000;

/// What a credential proves, or why it is not accepted.
pub(super) type Outcome<T> = Result<Arc<T>, AuthenticationError>;

/// The lookups of one kind of credentials. Clones share them.
#[derive(Clone)]
pub(super) struct Lookups<K, T>(Arc<LookupParts<K, T>>);

struct LookupParts<K, T> {
    bounds: Bounds,
    /// The accepted credentials, and until when they are accepted without another lookup.
    accepted: Cache<K, (Arc<T>, Instant)>,
    refused: Cache<K, (AuthenticationError, Instant)>,
    running: Mutex<HashMap<K, Cached<Outcome<T>>>>,
}

/// The bounds on lookups.
pub(super) struct Bounds {
    /// Time for which a credential stays refused.
    pub(super) refused_for: Duration,
    /// Maximum number of lookups that wait or are in flight, beyond which only those of credentials
    /// that were accepted before are begun.
    pub(super) lookups_max: usize,
    /// Maximum time that a request waits for a lookup.
    pub(super) wait_max: Duration,
    /// The reason for which a request fails if there are too many lookups.
    pub(super) too_many: &'static str,
    /// The reason for which a request fails if its lookup takes too long.
    pub(super) late: &'static str,
}

impl<K: Eq + Hash + Clone + Send + Sync + 'static, T: Send + Sync + 'static> Lookups<K, T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        let (accepted, refused) = (Cache::new(REMEMBERED_MAX), Cache::new(REMEMBERED_MAX));
        Self(Arc::new(LookupParts { bounds, accepted, refused, running: Mutex::default() }))
    }

    /// Returns what the credential with this key proves. Unless that is known, `look_up` finds it
    /// out, and until when the credential is accepted. It learns whether the credential was
    /// accepted before.
    pub(super) async fn get<F>(&self, key: K, look_up: impl FnOnce(bool) -> F) -> Outcome<T>
    where
        F: Future<Output = Result<(T, Instant), AuthenticationError>> + Send + 'static,
    {
        let LookupParts { bounds, accepted, .. } = &*self.0;
        if let Some(outcome) = self.0.remembered(&key) {
            return outcome;
        }
        let (running, was_accepted) = {
            let mut running = self.0.running.lock();
            if let Some(outcome) = self.0.remembered(&key) {
                return outcome;
            }
            let was_accepted = accepted.peek(&key).is_some();
            if !was_accepted && running.len() >= bounds.lookups_max && !running.contains_key(&key) {
                return Err(AuthenticationError::Unavailable(bounds.too_many.to_owned()));
            }
            let new = || Cached::new(Duration::ZERO);
            (running.entry(key.clone()).or_insert_with(new).clone(), was_accepted)
        };
        let begin = || {
            let (parts, found) = (self.0.clone(), look_up(was_accepted));
            async move {
                let panicked = |_| Err(AuthenticationError::Unavailable("a lookup panicked".to_owned()));
                let found = AssertUnwindSafe(found).catch_unwind().await.unwrap_or_else(panicked);
                let outcome = parts.remember(&key, found);
                parts.running.lock().remove(&key);
                outcome
            }
        };
        let late = || Err(AuthenticationError::Unavailable(bounds.late.to_owned()));
        running.get(bounds.wait_max, begin).await.unwrap_or_else(late)
    }

    /// Lets the next request look the credential up again.
    pub(super) fn forget(&self, key: &K) {
        self.0.accepted.remove(key);
    }

    /// Returns the number of accepted and refused credentials that are remembered, and of lookups.
    #[cfg(test)]
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.0.accepted.len(), self.0.refused.len(), self.0.running.lock().len()]
    }
}

impl<K: Eq + Hash + Clone, T> LookupParts<K, T> {
    fn remembered(&self, key: &K) -> Option<Outcome<T>> {
        let now = Instant::now();
        let accepted = self.accepted.get(key).filter(|(_, until)| now < *until).map(|(value, _)| Ok(value));
        let refused = || self.refused.get(key).filter(|(_, until)| now < *until).map(|(refusal, _)| Err(refusal));
        accepted.or_else(refused)
    }

    fn remember(&self, key: &K, outcome: Result<(T, Instant), AuthenticationError>) -> Outcome<T> {
        match outcome {
            Ok((value, until)) => {
                let value = Arc::new(value);
                self.accepted.insert(key.clone(), (value.clone(), until));
                Ok(value)
            }
            Err(failure @ AuthenticationError::Unavailable(_)) => Err(failure),
            Err(refusal) => {
                self.accepted.remove(key);
                self.refused.insert(key.clone(), (refusal.clone(), Instant::now() + self.bounds.refused_for));
                Err(refusal)
            }
        }
    }
}
