//! Waits for the end of moves. One task of a process follows each move for all operations that
//! wait.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::resolve::Resolved;
use crate::Error;
use crate::pooled::PooledStore;
use sukkal_domain::{PoolName, QueueId};

/// Time between two looks at a move.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

impl PooledStore {
    /// Settles the move of a queue as far as it concerns the store of this pool, and waits while
    /// the queue moves. Returns whether the queue must be looked up again, because it is there or
    /// anything has changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if the move has not ended by the deadline.
    pub(in crate::pooled) async fn resolve(
        &self,
        queue: &QueueId,
        pool: Option<&PoolName>,
        deadline: Instant,
    ) -> Result<bool, Error> {
        match self.resolve_step(queue, pool).await? {
            Resolved::Absent => Ok(false),
            Resolved::Exists | Resolved::Changed => Ok(true),
            Resolved::Running => {
                // Later requests wait outside the store: see `wait_for_move`.
                self.0.locations.remove(queue);
                wait(queue, self.follow_move(queue, pool), deadline).await.map(|()| true)
            }
        }
    }

    /// Returns the time until which an operation that begins now waits for moves.
    pub(in crate::pooled) fn move_deadline(&self) -> Instant {
        Instant::now() + self.0.options.wait_max
    }

    /// Waits for the move of a queue that operations of this process wait for already.
    pub(in crate::pooled) async fn wait_for_move(&self, queue: &QueueId, wait_max: Duration) -> Result<(), Error> {
        let running = self.0.running_moves.lock().get(queue).cloned();
        match running {
            Some(running) => wait(queue, running, Instant::now() + wait_max).await,
            None => Ok(()),
        }
    }

    fn follow_move(&self, queue: &QueueId, pool: Option<&PoolName>) -> watch::Receiver<()> {
        let mut moves = self.0.running_moves.lock();
        if let Some(running) = moves.get(queue) {
            return running.clone();
        }
        let (sender, receiver) = watch::channel(());
        moves.insert(queue.clone(), receiver.clone());
        let (parts, queue, pool) = (Arc::downgrade(&self.0), queue.clone(), pool.cloned());
        tokio::spawn(async move {
            loop {
                sleep(POLL_INTERVAL).await;
                let Some(store) = parts.upgrade().map(PooledStore) else { return };
                if store.resolve_step(&queue, pool.as_ref()).await != Ok(Resolved::Running) {
                    store.0.running_moves.lock().remove(&queue);
                    drop(sender);
                    return;
                }
            }
        });
        receiver
    }
}

async fn wait(queue: &QueueId, mut running: watch::Receiver<()>, deadline: Instant) -> Result<(), Error> {
    // Nothing is ever sent.
    match timeout_at(deadline, running.changed()).await {
        Ok(_closed) => Ok(()),
        Err(_elapsed) => Err(Error::Unavailable(format!("queue {queue} is being moved to another pool"))),
    }
}
