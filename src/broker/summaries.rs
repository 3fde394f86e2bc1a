//! The statistics of the queues of a page.

use super::access::Resource;
use super::queues::ListedQueues;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::{ProjectId, QueueId, QueueKind};

impl Broker {
    /// Adds statistics to the queues of a page. The page becomes shorter, but not empty, if too
    /// many due changes would have to be applied.
    pub(super) async fn add_stats(
        &self,
        caller: &Caller,
        project: &ProjectId,
        kind: QueueKind,
        page: &mut ListedQueues,
    ) -> Result<(), Error> {
        let access = self.store.authorize(caller, Action::GetStats, Resource::Project(project.clone(), kind))?;
        if page.queues.is_empty() {
            return Ok(());
        }
        let id = |name| QueueId::new(project.clone(), name).expect("a project with a queue has a short id");
        let queues: Vec<QueueId> = page.queues.iter().map(|queue| id(queue.name.clone())).collect();
        let summaries = access.admit().await?.summarize_queues(&queues).await?;
        if summaries.len() < queues.len() {
            page.queues.truncate(summaries.len());
            page.next = page.queues.last().map(|queue| queue.name.to_string());
        }
        for (queue, summary) in page.queues.iter_mut().zip(summaries) {
            queue.stats = Some(summary);
        }
        Ok(())
    }
}
