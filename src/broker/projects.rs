//! The list of projects, for operators.

use tokio::task::yield_now;

use super::access::Resource;
use super::range::page_limit;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::ProjectId;

/// Maximum number of projects that one step of a list examines; other requests run between two
/// steps.
const PROJECTS_PER_STEP: usize = 100;
/// Maximum number of projects that one request examines. Projects without queues stay in the list
/// until the janitor removes them.
const PROJECTS_PER_REQUEST_MAX: usize = 10_000;

/// A page of the projects that have queues.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedProjects {
    /// The projects, in the order of the store, with the number of their queues.
    pub projects: Vec<(ProjectId, u64)>,
    /// The marker of the next page; `None` for an empty page at the end of the list.
    pub next: Option<ProjectId>,
}

impl Broker {
    /// Returns the projects that have queues and follow `after`, at most `limit`, or the default
    /// number of queues in a page. Only operators may ask for it.
    pub async fn list_projects(
        &self,
        caller: &Caller,
        mut after: Option<ProjectId>,
        limit: Option<i64>,
    ) -> Result<ListedProjects, Error> {
        let access = self.store.authorize(caller, Action::ListProjects, Resource::Store)?;
        let limit = page_limit(limit, self.limits.max_queues_per_page)?;
        let (mut projects, mut left) = (Vec::new(), PROJECTS_PER_REQUEST_MAX);
        while left > 0 {
            let step = PROJECTS_PER_STEP.min(limit - projects.len()).min(left);
            let examined = access.admit().await?.list_projects(after.as_ref(), step).await?;
            left -= step;
            projects.extend(examined.projects);
            after = examined.reached;
            if projects.len() == limit || after.is_none() {
                after = projects.last().map(|(project, _)| project.clone());
                break;
            }
            yield_now().await;
        }
        Ok(ListedProjects { projects, next: after })
    }
}
