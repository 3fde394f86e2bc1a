//! The queues whose figures the metrics show.

use std::str::FromStr;

use super::{ProjectId, QueueId, QueueName};

/// Maximum number of queues whose figures the metrics show. Each of them is read several times a
/// minute.
pub const MONITORED_QUEUES_MAX: usize = 500;

/// A queue, or all queues of a project. It is written as `PROJECT/QUEUE` or `PROJECT/*`. A project
/// may contain slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MonitoredQueues {
    /// This queue or topic.
    Queue(QueueId),
    /// All queues of this project, but not its topics.
    Project(ProjectId),
}

impl FromStr for MonitoredQueues {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (project, name) = text.rsplit_once('/').ok_or(())?;
        // There is no list of all projects.
        let project = ProjectId::new(project).filter(|project| project.as_str() != "*").ok_or(())?;
        if name == "*" {
            return Ok(Self::Project(project));
        }
        let name = QueueName::from_stored(name).map_err(drop)?;
        QueueId::new(project, name).map(Self::Queue).map_err(drop)
    }
}
