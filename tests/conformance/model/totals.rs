//! Totals and the summary of the queue in the model.

use super::{ExpectedMessage, Run};
use crate::conformance::cases::fair_helpers::counts;

impl Run<'_> {
    /// Removes messages from the expected feed. Returns their number.
    pub(super) fn remove(&mut self, is_removed: impl Fn(&ExpectedMessage) -> bool) -> u64 {
        let before = self.feed.len();
        self.feed.retain(|message| !is_removed(message));
        (before - self.feed.len()) as u64
    }

    /// Removes messages that a client has deleted.
    pub(super) fn delete(&mut self, is_deleted: impl Fn(&ExpectedMessage) -> bool) {
        self.totals.deleted += self.remove(is_deleted);
    }

    /// Compares the summary of the queue with the model.
    pub(super) async fn check_summary(&self) {
        let summary = self.subject.summary(&self.queue).await;
        let count = |is_so: fn(&ExpectedMessage) -> bool| self.feed.iter().filter(|message| is_so(message)).count();
        let (claimed, delayed) = (count(ExpectedMessage::is_in_flight), count(|message| !message.is_released));
        let expected = [self.feed.len() - claimed - delayed, delayed, claimed].map(|count| count as u64);
        assert_eq!((counts(&summary.messages), summary.totals), (expected, self.totals));
        assert_eq!(summary.is_paused, self.is_paused);
        let is_available = |message: &&ExpectedMessage| message.is_released && !message.is_in_flight();
        let age = self.feed.iter().find(is_available).map(|message| self.since(message.id.rank()));
        assert_eq!(summary.messages.oldest_age_s.is_some(), age.is_some());
        if let (Some(age_s), Some((least, most))) = (summary.messages.oldest_age_s, age) {
            assert!((least.as_secs()..=most.as_secs()).contains(&age_s), "{age_s} s old, of at least {least:?}");
        }
    }
}
