//! The list of projects.

use futures::stream::{self, StreamExt, TryStreamExt};

use super::RedisStore;
use super::maintenance::walk::project_of;
use crate::{Error, ProjectPage, QueueStore};
use sukkal_domain::ProjectId;

/// Maximum number of commands in flight for one call. The registers of the projects are in
/// different slots.
const COMMANDS_IN_FLIGHT_MAX: usize = 16;

impl RedisStore {
    pub(super) async fn project_page(
        &self,
        after: Option<&ProjectId>,
        examined_max: usize,
    ) -> Result<ProjectPage, Error> {
        let examined = self.projects_after(after, examined_max).await?;
        let projects = examined.iter().map(|found| project_of(&found.name)).collect::<Result<Vec<_>, _>>()?;
        let reached = projects.last().filter(|_| projects.len() == examined_max).cloned();
        let commands: Vec<_> = projects.iter().map(|project| self.count_queues(project, None)).collect();
        let counts: Vec<u64> = stream::iter(commands).buffered(COMMANDS_IN_FLIGHT_MAX).try_collect().await?;
        // The janitor removes projects that have no queue.
        let projects = projects.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect();
        Ok(ProjectPage { projects, reached })
    }
}
