//! Reclaiming what nobody touches: expired messages of idle queues, and names without a queue.

use async_trait::async_trait;
use bytes::Bytes;
use tracing::warn;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::script::QUEUE_SETTLE;
use crate::domain::{ProjectId, QueueId, QueueName};
use crate::storage::{Check, Error, Upkeep};

const QUEUES_PER_STEP: usize = 16;
/// How often one visit to a queue settles, some hundreds of messages each time: what is left then is
/// left to the next visit.
const SETTLINGS_MAX: usize = 10_000;

#[async_trait]
impl Upkeep for RedisStore {
    async fn ping(&self) -> Result<(), Error> {
        self.connection.ping().await
    }

    async fn check(&self) -> Result<Check, Error> {
        let mut check = Check::default();
        let mut queues = self.queues_after(None).await?;
        while let Some(last) = queues.last() {
            for queue in &queues {
                match self.check_queue(queue, &mut check).await {
                    Err(Error::Corrupt(reason)) => check.find(queue, reason),
                    outcome => outcome?,
                }
            }
            queues = self.queues_after(Some(last)).await?;
        }
        Ok(check)
    }

    async fn tidy(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        let queues = self.queues_after(after).await?;
        for queue in &queues {
            match self.tidy_queue(queue).await {
                // One queue that cannot be read must not keep the janitor from all behind it.
                Err(Error::Corrupt(reason)) => warn!(%queue, reason, "the janitor passes over a queue"),
                outcome => outcome?,
            }
        }
        Ok(queues.last().cloned())
    }
}

impl RedisStore {
    /// The next few registered queues, all of one project; none at the end.
    async fn queues_after(&self, after: Option<&QueueId>) -> Result<Vec<QueueId>, Error> {
        let mut project = after.map(|queue| queue.project().clone());
        let mut name = after.map(QueueId::name).cloned();
        loop {
            if project.is_none() || name.is_none() {
                project = self.project_after(project.as_ref()).await?;
            }
            let Some(of) = project.clone() else {
                return Ok(Vec::new());
            };
            let names = self.registered_names(&of, name.as_ref().map(QueueName::as_str), QUEUES_PER_STEP).await?;
            if !names.is_empty() {
                return names.into_iter().map(|name| queue_of(&of, name)).collect();
            }
            name = None;
        }
    }

    async fn tidy_queue(&self, queue: &QueueId) -> Result<(), Error> {
        for _ in 0..SETTLINGS_MAX {
            let keys = QueueKeys::of(queue).all();
            let mut reply = self.connection.run(&QUEUE_SETTLE, keys, Vec::new()).await?;
            match (reply.text()?.as_str(), reply.number()?) {
                ("again", _) => {}
                ("absent", _) => return self.forget(queue).await,
                (_done, 0) => break,
                (_done, _letters) => {
                    // Once a visit: where they go to may be out of reach, and the janitor's other work is not.
                    if let Err(error) = self.deliver_letters(queue).await {
                        warn!(%queue, %error, "dead letters wait");
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes a name out of the register whose queue was never created, or whose deletion was cut off.
    async fn forget(&self, queue: &QueueId) -> Result<(), Error> {
        let stamps = keys::queue_stamps(queue.project());
        let mut reply = self.connection.command("HGET", &stamps, &[queue.name().as_str()]).await?;
        match reply.bytes_or_nil() {
            Some(stamp) => self.bury(queue, Bytes::copy_from_slice(&stamp)).await,
            None => Ok(()),
        }
    }

    async fn project_after(&self, project: Option<&ProjectId>) -> Result<Option<ProjectId>, Error> {
        let from = project.map_or("-".to_owned(), |project| format!("({project}"));
        let mut reply =
            self.connection.command("ZRANGEBYLEX", keys::PROJECTS, &[&from, "+", "LIMIT", "0", "1"]).await?;
        match reply.text_or_nil()? {
            Some(text) => Ok(ProjectId::new(&text)),
            None => Ok(None),
        }
    }
}

fn queue_of(project: &ProjectId, name: QueueName) -> Result<QueueId, Error> {
    QueueId::new(project.clone(), name).map_err(|error| Error::Corrupt(format!("the register of {project}: {error}")))
}
