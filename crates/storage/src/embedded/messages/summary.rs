//! Summaries of several queues.

use tokio::task::yield_now;

use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::Part;
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::writer::Step;
use crate::key::rank_of;
use crate::{Error, complete_summaries};
use sukkal_domain::{Holding, QueueId, Summary, Totals};

/// Maximum number of queues that one transaction reads. Between two transactions, other tasks run.
const QUEUES_PER_READ: usize = 100;

/// Summarizes all queues first, and then those again to which due changes must be applied.
pub(in crate::embedded) async fn summarize_queues(
    store: &EmbeddedStore,
    queues: &[QueueId],
) -> Result<Vec<Summary>, Error> {
    let mut all = Vec::with_capacity(queues.len());
    for some in queues.chunks(QUEUES_PER_READ) {
        all.extend(read_summaries(store, some.to_vec()).await?);
        yield_now().await;
    }
    let apply_step = |queue: QueueId| async move {
        apply_due_step(store, queue.clone()).await?;
        Ok(read_summaries(store, vec![queue]).await?.pop().flatten())
    };
    complete_summaries(queues, all, apply_step).await
}

/// Returns the summary of each queue, or `None` if due changes must be applied to it first.
async fn read_summaries(store: &EmbeddedStore, queues: Vec<QueueId>) -> Result<Vec<Option<Summary>>, Error> {
    let clock = store.parts.clock.clone();
    store.read(move |view| queues.iter().map(|queue| view.summary(queue, clock.now_us(queue))).collect()).await
}

/// Applies some hundreds of due changes of a queue.
async fn apply_due_step(store: &EmbeddedStore, queue: QueueId) -> Result<(), Error> {
    let apply = store.write(0, move |transaction| {
        let now_us = transaction.now_us(&queue);
        if let Some(row) = transaction.row(&queue)? {
            transaction.apply_due_changes(&row, now_us)?;
        }
        Ok(Step::Done(()))
    });
    apply.await
}

impl<T: Table> View<T> {
    fn summary(&self, queue: &QueueId, now_us: u64) -> Result<Option<Summary>, Error> {
        let Some(row) = self.row(queue)? else {
            return Ok(Some(Summary::default()));
        };
        let state = self.stored_state(row.number)?;
        if self.has_due_changes(row.number, &state, now_us)? {
            return Ok(None);
        }
        let oldest = self.entries(row.number, Part::Ready, 0)?.next().transpose()?;
        let messages = Holding {
            available: state.in_set(Part::Ready),
            delayed: state.delayed,
            claimed: state.in_flight,
            oldest_age_s: oldest.map(|located| now_us.saturating_sub(rank_of(located.key())) / 1_000_000),
        };
        let QueueState { posted, claimed, expired, dead_lettered, .. } = state;
        let totals = Totals { posted, claimed, expired, dead_lettered, deleted: 0 };
        Ok(Some(Summary { messages, is_paused: state.is_paused, totals: totals.with_deleted(state.total) }))
    }
}
