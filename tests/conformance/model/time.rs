//! Time in the model: the clock, the logical time, and the release of delayed messages.

use std::time::Duration;

use super::{Run, TICK_S};
use crate::conformance::cases::turn_model::UNSHARDED;
use crate::conformance::support::subject::messages;

impl Run<'_> {
    pub(in crate::conformance) async fn advance(&mut self, ticks: u32) {
        for part_s in self.clock_steps(ticks) {
            self.subject.advance(&self.queue, Duration::from_secs(part_s.into())).await;
            self.now_s += i64::from(part_s);
            self.latest_s = self.latest_s.max(self.now_s);
            self.apply_due_changes_if_fair().await;
        }
    }

    pub(in crate::conformance) async fn rewind(&mut self, ticks: u32) {
        // A message whose expiry no operation has applied could come back when the clock steps
        // back, so an operation runs now.
        self.subject.count(&self.queue).await;
        self.note_logical_time().await;
        self.subject.rewind(&self.queue, Duration::from_secs((ticks * TICK_S).into())).await;
        self.now_s -= i64::from(ticks * TICK_S);
        if self.has_delayed() {
            // The queue must observe the step now, because its logical time does not include a step
            // that it has not observed.
            self.subject.count(&self.queue).await;
            self.offset_us += u64::from(ticks * TICK_S) * 1_000_000;
        }
    }

    /// Returns the lowest possible time of the queue's clock after the run has moved it by
    /// `offset_s`, in microseconds.
    pub(in crate::conformance) fn clock_us(&self, offset_s: i64) -> u64 {
        self.started_us.checked_add_signed(offset_s * 1_000_000).expect("it is after 1970")
    }

    /// Releases the delayed messages that are due.
    pub(in crate::conformance) fn release_due(&mut self) {
        let now_us = self.clock_us(self.now_s) + self.offset_us;
        // Messages with lower ranks than a visible message were due before it.
        let last = self.feed.iter().rposition(|message| message.is_released || message.id.rank().micros() <= now_us);
        let is_fair = self.is_fair();
        for message in self.feed.iter_mut().take(last.map_or(0, |last| last + 1)) {
            if !message.is_released && is_fair {
                message.shard = message.shard.or(Some(UNSHARDED));
            }
            message.is_released = true;
            self.fairness.last = self.fairness.last.max(message.id.rank());
        }
        self.offset_max_us = self.offset_max_us.max(self.offset_us);
        if !self.has_delayed() {
            self.offset_us = 0;
        }
    }

    pub(in crate::conformance) fn has_delayed(&self) -> bool {
        self.feed.iter().any(|message| !message.is_released)
    }

    /// Updates the queue, which records its logical time: it is not behind the clock before the
    /// clock steps back.
    async fn note_logical_time(&mut self) {
        if self.state.is_some() && self.has_delayed() {
            let ids = self.subject.post(&self.queue, &messages(60, 1)).await;
            self.subject.delete_messages(&self.queue, &ids).await;
            self.totals.posted += 1;
            self.totals.deleted += 1;
            self.fairness.last = self.fairness.last.max(ids[0].rank());
        }
    }
}
