//! Finds the store that has a queue.
//!
//! An operation is tried in one store after the other, until one has the queue: first where the
//! process remembers it, then where the catalogue says. If the catalogue says the same, the queue
//! does not exist there: it is being created or deleted, or a crash has interrupted that. Or the
//! queue moves to another pool. Then the search waits for the end of the move, and goes on.

use std::sync::Arc;

use tokio::time::Instant;

use super::PooledStore;
use super::locations::Located;
use crate::{Driver, Error, Location, WatchStore};
use sukkal_domain::{PoolName, QueueId};

/// Maximum number of stores in which an operation is tried. Each of them lost the queue since the
/// catalogue was read.
const TRIED_MAX: usize = 32;

/// Runs an operation in the store that has the queue, or in an empty store if it does not exist.
/// The operation is an expression that is awaited, in which the name stands for the store.
macro_rules! at {
    ($this:ident, $queue:expr, $store:ident => $operation:expr) => {
        crate::pooled::search::try_stores!($this.search($queue, true), $store => $operation)
    };
}

/// The same, but fails with [`Error::NoQueue`] if the queue does not exist.
macro_rules! at_existing {
    ($this:ident, $queue:expr, $store:ident => $operation:expr) => {
        crate::pooled::search::try_stores!($this.search($queue, false), $store => $operation)
    };
}

macro_rules! try_stores {
    ($search:expr, $store:ident => $operation:expr) => {{
        let mut search = $search;
        loop {
            let $store = match search.next().await {
                Ok(store) => store,
                Err(error) => break Err(error),
            };
            match $operation.await {
                Err(crate::Error::NoQueue) => {}
                outcome => break outcome,
            }
        }
    }};
}

pub(super) use {at, at_existing, try_stores};

/// The search for the store of one queue.
pub(super) struct Search<'a> {
    pooled: &'a PooledStore,
    queue: &'a QueueId,
    /// Whether the last store to try is the empty one.
    allows_missing: bool,
    /// Number of stores tried.
    tried: usize,
    /// The last one.
    last: Option<Located>,
    has_ended: bool,
    /// Until when it waits for moves, once it has met one.
    deadline: Option<Instant>,
}

impl Search<'_> {
    /// Returns the next store to try.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueue`] if all stores have been tried.
    pub(super) async fn next(&mut self) -> Result<Arc<dyn Driver>, Error> {
        let (pooled, queue) = (self.pooled, self.queue);
        if self.has_ended {
            return Err(Error::NoQueue);
        }
        if self.tried == 0
            && let Some(located) = pooled.0.locations.get(queue)
        {
            let store = located.store.clone();
            (self.tried, self.last) = (1, Some(located));
            return Ok(store);
        }
        if self.tried > TRIED_MAX {
            return Err(Error::Unavailable(format!("queue {queue} moves too often")));
        }
        let mut location = pooled.0.management.find_location(queue).await?;
        while let Some(tried) =
            location.take_if(|location| self.last.as_ref().is_some_and(|last| last.location == *location))
        {
            let deadline = *self.deadline.get_or_insert_with(|| pooled.move_deadline());
            let must_retry = pooled.resolve(queue, tried.pool.as_ref(), deadline).await?;
            // If the queue still has this location, and its store had neither the queue nor a part
            // in a move, the queue does not exist.
            let now = pooled.0.management.find_location(queue).await?;
            if must_retry {
                self.last = None;
            } else if now.as_ref() == Some(&tried) {
                // The pool may have another address than this process knew.
                pooled.confirm_pool(&tried).await?;
                let store = pooled.store_of(tried.pool.as_ref())?;
                if self.last.take().is_none_or(|last| is_same(&*last.store, &*store)) {
                    break;
                }
            }
            location = now;
        }
        if let Some(location) = location {
            let store = pooled.locate_at(queue, location.clone()).await?;
            (self.tried, self.last) = (self.tried + 1, Some(Located { location, store: store.clone() }));
            return Ok(store);
        }
        pooled.0.locations.remove(queue);
        self.has_ended = true;
        if self.allows_missing { Ok(pooled.0.no_queues.clone()) } else { Err(Error::NoQueue) }
    }
}

impl PooledStore {
    /// Starts a search for the store of a queue.
    pub(super) fn search<'a>(&'a self, queue: &'a QueueId, allows_missing: bool) -> Search<'a> {
        Search { pooled: self, queue, allows_missing, tried: 0, last: None, has_ended: false, deadline: None }
    }

    /// Returns the store at the location of a queue, and remembers the location.
    pub(super) async fn locate_at(&self, queue: &QueueId, location: Location) -> Result<Arc<dyn Driver>, Error> {
        if let Some(pool) = &location.pool
            && !self.is_listed(pool)
        {
            self.refresh_pools().await?;
        }
        let store = self.store_of(location.pool.as_ref())?;
        self.0.locations.insert(queue.clone(), Located { location: location.clone(), store: store.clone() });
        if self.store_of(location.pool.as_ref()).is_ok_and(|now| !is_same(&*now, &*store)) {
            // The list of pools has changed since.
            self.0.locations.remove(queue);
        }
        self.follow_location(queue, location.pool.as_ref()).await;
        Ok(store)
    }

    /// Returns whether this is the empty store.
    pub(super) fn is_empty_store(&self, store: &dyn Driver) -> bool {
        std::ptr::eq(store.watchers(), self.0.no_queues.watchers())
    }

    /// Returns the store of a pool. Its operations fail if they are on a queue that it does not
    /// have.
    pub(super) fn store_of(&self, pool: Option<&PoolName>) -> Result<Arc<dyn Driver>, Error> {
        match pool {
            None => Ok(self.0.virtual_pool.clone()),
            Some(name) => Ok(self.pool(name)?.store.clone()),
        }
    }
}

pub(super) fn is_same(one: &dyn Driver, other: &dyn Driver) -> bool {
    std::ptr::addr_eq(std::ptr::from_ref(one), std::ptr::from_ref(other))
}
