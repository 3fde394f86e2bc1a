//! Measures what queues in the embedded store use.

use std::ops::Bound;

use async_trait::async_trait;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::{Error, MeasuredQueues, QueueUsage, QuotaStore};
use sukkal_domain::{ProjectId, QueueId, QueueName};

#[async_trait]
impl QuotaStore for EmbeddedStore {
    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        let prefix = keys::of_project(keys::QUEUES, project);
        let after = [&prefix, after.map_or("", QueueName::as_str).as_bytes()].concat();
        self.read(move |view| view.measure(&prefix, &after, examined_max)).await
    }

    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error> {
        let queue = queue.clone();
        self.read(move |view| match view.row(&queue)? {
            Some(row) => Ok(used_by(&view.stored_state(row.number)?)),
            None => Ok(QueueUsage::default()),
        })
        .await
    }
}

impl<T: Table> View<T> {
    /// Measures the queues after the key `after`. The keys of the project's queues begin with
    /// `prefix`.
    fn measure(&self, prefix: &[u8], after: &[u8], examined_max: usize) -> Result<MeasuredQueues, Error> {
        let (mut measured, mut examined) = (MeasuredQueues::default(), 0);
        let rows = (Bound::Excluded(after), Bound::Excluded(&*keys::prefix_end(prefix)));
        for entry in self.registry.range::<&[u8]>(rows)?.take(examined_max) {
            let (key, row) = entry?;
            // A queue that is in a pool has no contents here.
            let number = QueueRow::decode_head(row.value()).map_or(0, |row| row.number);
            let state = self.stored_state(number)?;
            measured.usage.add(used_by(&state));
            examined += 1;
            if examined == examined_max {
                let queue = keys::decode_queue(key.value()).ok_or_else(|| damaged("a queue's name"))?;
                measured.reached = Some(queue.name().clone());
            }
        }
        Ok(measured)
    }
}

fn used_by(state: &QueueState) -> QueueUsage {
    let QueueState { total: messages, subscription_count: subscriptions, .. } = *state;
    let bytes = state.bytes.unwrap_or(0);
    QueueUsage { messages, messages_max: messages, bytes, bytes_max: bytes, subscriptions }
}
