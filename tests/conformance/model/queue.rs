//! The queue in the model: its metadata and its revision.

use serde_json::json;
use sukkal_domain::{Creation, Metadata};
use sukkal_storage::UpdateOutcome;

use super::Run;
use super::fairness::Kind;
use super::operations::QueueSettings;
use crate::conformance::support::subject::metadata;

const DEAD_LETTER_TTL_S: u32 = 1_000_000;

impl Run<'_> {
    /// Messages that were popped before a purge are not restored.
    pub(in crate::conformance) async fn purge(&mut self) {
        // A purge deletes messages that have expired and that no operation has visited since.
        self.subject.count(&self.queue).await;
        self.delete(|_| true);
        self.subject.store().purge_queue(&self.queue).await.expect("the store answers");
        (self.feed, self.claims, self.popped) = (Vec::new(), Vec::new(), Vec::new());
    }

    pub(in crate::conformance) async fn create(&mut self, settings: QueueSettings) {
        let keys = self.keys(settings, false);
        let creation = self.subject.store().create_queue(&self.queue, &keys).await;
        if self.state.is_none() {
            assert_eq!(creation, Ok(Creation::Created));
            self.check_new_state(keys).await;
        } else {
            assert_eq!(creation, Ok(Creation::Existed));
            self.check_queue().await;
        }
    }

    /// Returns how often messages are delivered before they become dead letters, if they do.
    pub(in crate::conformance) fn claim_count_max(&self) -> Option<u32> {
        let (keys, _) = self.state.as_ref()?;
        keys.dead_letters().map(|dead_letter_queue| dead_letter_queue.claim_count_max)
    }

    pub(in crate::conformance) fn delays(&self) -> bool {
        self.state.as_ref().is_some_and(|(keys, _)| keys.default_message_delay_s().is_some())
    }

    /// Returns the metadata for these settings, which include the maximum claim count.
    fn keys(&self, QueueSettings { color, shards, own }: QueueSettings, updated: bool) -> Metadata {
        let is_fair = self.kind == Kind::Fair;
        let claim_count_max = Some(color % 4).filter(|count| *count < 3);
        metadata(json!({
            "color": color,
            "updated": updated,
            "_default_message_delay": color % 2,
            "_max_claim_count": claim_count_max,
            "_dead_letter_queue": self.dead_letter_queue().name().as_str(),
            // The clock of the dead-letter queue is not moved.
            "_dead_letter_queue_messages_ttl": DEAD_LETTER_TTL_S,
            "_shards": is_fair.then_some(shards),
            "_shards_per_tenant": own.filter(|_| is_fair),
        }))
    }

    pub(in crate::conformance) async fn update(&mut self, settings: QueueSettings) {
        let keys = self.keys(settings, true);
        let revision = self.state.as_ref().map_or(self.last_revision, |(_, revision)| *revision);
        let update = self.subject.store().update_queue(&self.queue, revision, &keys).await;
        if self.state.is_some() {
            assert_eq!(update, Ok(UpdateOutcome::Done));
            self.set_shards(&keys);
            self.check_new_state(keys).await;
        } else {
            assert_eq!(update, Ok(UpdateOutcome::Stale));
        }
    }

    /// Checks that the queue has this metadata, at a revision higher than all before.
    pub(in crate::conformance) async fn check_new_state(&mut self, keys: Metadata) {
        let queue = self.subject.get(&self.queue).await.expect("it exists");
        assert_eq!(queue.metadata, keys);
        assert!(queue.revision > self.last_revision);
        self.last_revision = queue.revision;
        self.state = Some((keys, queue.revision));
    }

    pub(in crate::conformance) async fn check_queue(&self) {
        let queue = self.subject.get(&self.queue).await.map(|queue| (queue.metadata, queue.revision));
        assert_eq!(queue, self.state);
    }
}
