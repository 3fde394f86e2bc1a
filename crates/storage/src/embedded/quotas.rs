//! Quotas in the embedded store: a row of the registry for each project that has some, and one for
//! the version of the list.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::Bytes;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::writer::Step;
use crate::quotas::{decode, encode};
use crate::{Error, MeasuredQueues, QueueUsage, QuotaList, QuotaStore, QuotaVersion};
use sukkal_domain::{ProjectId, QueueId, QueueName, QuotaOverrides};

#[async_trait]
impl QuotaStore for EmbeddedStore {
    async fn list_quotas(&self, known: Option<&QuotaVersion>) -> Result<Option<QuotaList>, Error> {
        let known = known.cloned();
        self.read(move |view| view.quota_list(known.as_ref())).await
    }

    async fn set_quotas(&self, project: &ProjectId, quotas: &QuotaOverrides) -> Result<(), Error> {
        let (key, quotas) = (keys::quotas(project), encode(quotas));
        let version = QuotaVersion::random();
        self.write(0, move |store| {
            if quotas.is_empty() {
                store.remove_registry(&key)?;
            } else {
                store.put_registry(&key, &quotas)?;
            }
            store.put_registry(&keys::quotas_prefix(), &version.0).map(Step::Done)
        })
        .await
    }

    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        let of = keys::queues_prefix(project);
        let after = [&of, after.map_or("", QueueName::as_str).as_bytes()].concat();
        self.read(move |view| view.measure(&of, &after, examined_max)).await
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
    fn quota_list(&self, known: Option<&QuotaVersion>) -> Result<Option<QuotaList>, Error> {
        let stored = self.registry.get(&keys::quotas_prefix()[..])?;
        let version = stored.map(|version| QuotaVersion(Bytes::copy_from_slice(version.value())));
        if known.is_some() && version.as_ref() == known {
            return Ok(None);
        }
        let end = keys::prefix_end(&keys::quotas_prefix());
        let rows = (Bound::Excluded(&keys::quotas_prefix()[..]), Bound::Excluded(&*end));
        let read = self.registry.range::<&[u8]>(rows)?.map(|entry| {
            let (key, quotas) = entry?;
            let project = keys::decode_quotas(key.value()).ok_or_else(|| damaged("a project's id"))?;
            Ok((project, decode(quotas.value())?))
        });
        Ok(Some(QuotaList { version, projects: read.collect::<Result<_, Error>>()? }))
    }

    /// Measures the queues after the key `after`. The keys of the project's queues begin with `of`.
    fn measure(&self, of: &[u8], after: &[u8], examined_max: usize) -> Result<MeasuredQueues, Error> {
        let (mut measured, mut examined) = (MeasuredQueues::default(), 0);
        let rows = (Bound::Excluded(after), Bound::Excluded(&*keys::prefix_end(of)));
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
