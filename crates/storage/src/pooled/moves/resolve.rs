//! Ends or undoes moves, and removes what they have left.

use crate::catalogue::MoveState;
use crate::pooled::PooledStore;
use crate::{Epoch, Error, Location};
use sukkal_domain::{PoolName, QueueId};

/// Maximum number of steps in which the remains of moves in one store are resolved.
const STEPS_MAX: usize = 4;

/// What was found out about a move, as far as it concerns one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resolved {
    /// The store does not have the queue, and has no part in a move of it.
    Absent,
    /// The store has the queue, which does not move.
    Exists,
    /// Something was done, or has changed. The location of the queue must be looked up again.
    Changed,
    /// The queue is being moved.
    Running,
}

impl PooledStore {
    /// Does the next step to end the move of a queue, as far as it concerns the store of this pool.
    pub(super) async fn resolve_step(&self, queue: &QueueId, pool: Option<&PoolName>) -> Result<Resolved, Error> {
        let Some(store) = self.redis_at(pool)? else { return Ok(Resolved::Absent) };
        let (label, is_complete, has_expired) = match store.move_state(queue).await? {
            MoveState::Absent => return Ok(Resolved::Absent),
            MoveState::Exists => return Ok(Resolved::Exists),
            MoveState::Moves { label, is_complete, has_expired } => (label, is_complete, has_expired),
        };
        // The location is read after the label: epochs only grow.
        let location = self.0.management.find_location(queue).await?;
        let next = Epoch(label.0 + 1);
        match location {
            Some(location) if is_complete && location.epoch == next && location.pool.as_ref() == pool => {
                store.end_move(queue, next).await?;
                self.notify_of_location(queue).await;
            }
            Some(location) if location.epoch <= label => {
                if !has_expired {
                    return Ok(Resolved::Running);
                }
                let undone = Location { pool: location.pool.clone(), epoch: next };
                self.give_location(queue, &location, &undone).await?;
            }
            Some(_) | None => store.discard_move(queue, label).await?,
        }
        Ok(Resolved::Changed)
    }

    /// Ends the moves of a queue whose processes have died, and removes what moves have left in all
    /// stores.
    pub(in crate::pooled) async fn settle_everywhere(&self, queue: &QueueId) -> Result<(), Error> {
        let pools = self.0.pools.all();
        for pool in [None].into_iter().chain(pools.keys().map(Some)) {
            for _ in 0..STEPS_MAX {
                if self.resolve_step(queue, pool).await? != Resolved::Changed {
                    break;
                }
            }
        }
        Ok(())
    }
}
