//! Redrives in the model: the available messages move to another queue.

use std::time::Duration;

use sukkal_domain::{Body, Redrive, Selection, TaskState};
use sukkal_storage::run_redrive;

use super::{ExpectedMessage, Run};
use crate::conformance::support::subject::bodies_of;

impl Run<'_> {
    /// Moves the first available messages to a new queue.
    pub(in crate::conformance) async fn redrive(&mut self, limit: Option<u32>) {
        if self.state.is_none() {
            return;
        }
        let target = self.subject.queue(&uuid::Uuid::new_v4().to_string()).await;
        // Otherwise messages could arrive there when they have expired by its clock.
        let ahead = Duration::from_secs(self.now_s.unsigned_abs());
        if self.now_s < 0 {
            self.subject.rewind(&target, ahead).await;
        } else {
            self.subject.advance(&target, ahead).await;
        }
        let selection = limit.map_or(Selection::All, Selection::First);
        let redrive = Redrive { to: Some(target.name().clone()), selection, per_second: None };
        let id = self.subject.create_redrive(&self.queue, &redrive).await;

        run_redrive(self.subject.store(), &self.queue, id).await;

        let mut moved = self.free();
        let claimed = self.claimed().len() as u64;
        moved.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        let (moved, left): (Vec<ExpectedMessage>, Vec<ExpectedMessage>) =
            self.feed.drain(..).partition(|message| moved.contains(&message.id));
        self.feed = left;
        self.totals.deleted += moved.len() as u64;
        let task = self.subject.task(&self.queue, id).await;
        assert_eq!((task.state, task.moved, task.remaining), (TaskState::Done, moved.len() as u64, 0));
        let is_whole = limit.is_none_or(|limit| task.moved < u64::from(limit));
        assert!(task.skipped == claimed || !is_whole && task.skipped < claimed, "{task:?} with {claimed} claimed");
        let bodies: Vec<Body> = moved.into_iter().map(|message| message.body).collect();
        assert_eq!(bodies_of(&self.subject.contents(&target).await), bodies);
        self.subject.delete(&target).await;
    }
}
