//! A walk over all queues in the catalogue of a store.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::sleep;

use crate::{Driver, Error, Location, NameRange};
use sukkal_domain::{ProjectId, QueueId, QueueName};

/// Number of projects, and of names of a project, that one step reads.
const PROJECTS_PER_STEP: usize = 100;
const NAMES_PER_STEP: usize = 1_000;
/// Pause between two steps in one project, which leaves the store to other operations.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// How far a walk has come.
#[derive(Default)]
pub(super) struct LocationWalk {
    /// The project that is being read, and the last name that was read in it.
    current: Option<(ProjectId, Option<QueueName>)>,
    /// The next projects.
    projects: VecDeque<ProjectId>,
    /// The last project of which the name was read.
    reached: Option<ProjectId>,
    /// Whether the names of all projects were read.
    has_all_projects: bool,
}

impl LocationWalk {
    /// Returns the next queues, all of one project; `None` at the end. A queue that is in the
    /// catalogue need not exist.
    pub(super) async fn next(&mut self, store: &dyn Driver) -> Result<Option<Vec<(QueueId, Location)>>, Error> {
        loop {
            if let Some((project, after)) = self.current.take() {
                if after.is_some() {
                    sleep(STEP_PAUSE).await;
                }
                let page = store.list_locations(&project, &NameRange::after(after.as_ref()), NAMES_PER_STEP).await?;
                let queues = page.queues.into_iter().map(|(name, location)| {
                    let queue = QueueId::new(project.clone(), name);
                    let queue = queue.map_err(|error| Error::Corrupt(format!("the catalogue of {project}: {error}")));
                    queue.map(|queue| (queue, location))
                });
                let queues = queues.collect::<Result<_, _>>()?;
                self.current = page.reached.map(|reached| (project, Some(reached)));
                return Ok(Some(queues));
            }
            if let Some(project) = self.projects.pop_front() {
                self.current = Some((project, None));
            } else if self.has_all_projects {
                return Ok(None);
            } else {
                let page = store.list_projects(self.reached.as_ref(), PROJECTS_PER_STEP).await?;
                self.projects = page.projects.into_iter().map(|(project, _)| project).collect();
                self.has_all_projects = page.reached.is_none();
                self.reached = page.reached;
            }
        }
    }
}
