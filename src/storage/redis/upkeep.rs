//! Reclaiming what nobody touches: in queues where something is due, and in a walk over all registered queues, which also
//! finds names without a queue and projects without a name. See `janitor.rs` for when.

use std::collections::HashSet;

use async_trait::async_trait;
use tracing::warn;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::messages::text;
use super::script::QUEUE_SETTLE;
use crate::domain::{ProjectId, QueueId, QueueName};
use crate::storage::{Check, Error, Schedule, Upkeep};

const QUEUES_PER_STEP: usize = 16;
/// How often one visit to a queue settles, some hundreds of messages each time: what is left then is
/// left to the next visit.
const SETTLINGS_MAX: usize = 10_000;

/// The servers of a cluster that did not answer during a walk, each by its first slot.
pub(super) type Away = HashSet<u16>;

#[async_trait]
impl Upkeep for RedisStore {
    async fn ping(&self) -> Result<(), Error> {
        self.connection.ping().await
    }

    async fn probe(&self) -> Result<(), Error> {
        self.connection.probe().await
    }

    fn has_full_disk(&self) -> bool {
        self.connection.has_full_disk()
    }

    async fn refused(&self) -> String {
        self.connection.refused().await
    }

    async fn check(&self) -> Result<Check, Error> {
        self.check_all(false).await
    }

    async fn repair(&self) -> Result<Check, Error> {
        self.check_all(true).await
    }

    async fn maintain(&self, schedule: &Schedule) -> Result<u64, Error> {
        // In a box, because it is large and runs seldom.
        Box::pin(self.take_turn(schedule)).await
    }

    async fn tidy(&self, after: Option<&QueueId>) -> Result<Option<QueueId>, Error> {
        self.walk_step(after, &mut Away::new()).await.map(|(_visited, last)| last)
    }
}

impl RedisStore {
    /// Visits the next few registered queues behind `after`. Returns how many, and the last of them; `None` at the end. The queues of
    /// servers of a cluster that are away are skipped.
    pub(super) async fn walk_step(
        &self,
        after: Option<&QueueId>,
        away: &mut Away,
    ) -> Result<(u64, Option<QueueId>), Error> {
        let queues = self.queues_after(after, away).await?;
        for queue in &queues {
            if self.is_away(QueueKeys::of(queue).prefix(), away) {
                continue;
            }
            match self.tidy_queue(queue).await {
                // One queue that cannot be read must not keep the janitor from all behind it.
                Err(Error::Corrupt(reason)) => warn!(%queue, reason, "the janitor passes over a queue"),
                outcome => self.skip_if_away(QueueKeys::of(queue).prefix(), outcome, away)?,
            }
        }
        Ok((queues.len() as u64, queues.last().cloned()))
    }

    /// The next few registered queues, all of one project; none at the end. Projects that have none are removed, and
    /// projects whose register is away are skipped.
    pub(super) async fn queues_after(&self, after: Option<&QueueId>, away: &mut Away) -> Result<Vec<QueueId>, Error> {
        let mut project = after.map(|queue| queue.project().clone());
        let mut name = after.map(QueueId::name).cloned();
        loop {
            let mut registration = None;
            if name.is_none() {
                registration = self.project_after(project.as_ref()).await?;
                project = registration.as_ref().map(|found| project_of(&found.name)).transpose()?;
            }
            let Some(of) = project.clone() else {
                return Ok(Vec::new());
            };
            let register = keys::queue_names(&of);
            if !self.is_away(&register, away) {
                let after = name.as_ref().map(QueueName::as_str);
                match self.registered_names(&of, after, QUEUES_PER_STEP).await {
                    Ok(names) if !names.is_empty() => {
                        return names.into_iter().map(|name| queue_of(&of, name)).collect();
                    }
                    Ok(_none) => {
                        if let Some(empty) = registration {
                            self.remove_project(&empty).await?;
                        }
                    }
                    Err(Error::Corrupt(reason)) => warn!(project = %of, reason, "the janitor passes over a project"),
                    Err(error) => self.skip_if_away(&register, Err(error), away)?,
                }
            }
            name = None;
        }
    }

    pub(super) async fn tidy_queue(&self, queue: &QueueId) -> Result<(), Error> {
        for _ in 0..SETTLINGS_MAX {
            let mut reply = self.connection.run(&QUEUE_SETTLE, &QueueKeys::of(queue), &[]).await?;
            match (reply.text()?.as_str(), reply.number()?) {
                ("again", _) => {}
                ("absent", _) => return self.forget(queue).await,
                (_done, 0) => break,
                (_done, _letters) => {
                    // Once a visit: where they go to may be out of reach, and the janitor's other work is not.
                    if let Err(error) = self.forward_dead_letters(queue).await {
                        warn!(%queue, %error, "dead letters wait");
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Removes the registration of a name whose queue was never created, or whose deletion was cut off.
    async fn forget(&self, queue: &QueueId) -> Result<(), Error> {
        match self.registered_version(queue).await? {
            Some(version) => self.bury(queue, text(version)).await,
            None => Ok(()),
        }
    }

    /// Whether a key is on a server of a cluster that is away.
    fn is_away(&self, key: &str, away: &Away) -> bool {
        !away.is_empty() && self.server_of(key).is_some_and(|server| away.contains(&server))
    }

    /// Remembers that the server of a cluster that has this key is away, if it did not answer. Without a cluster that is the
    /// failure that it is.
    fn skip_if_away(&self, key: &str, outcome: Result<(), Error>, away: &mut Away) -> Result<(), Error> {
        let Err(Error::Unavailable(reason)) = &outcome else {
            return outcome;
        };
        let Some(server) = self.server_of(key) else {
            return outcome;
        };
        warn!(reason, "the janitor skips the queues of a server that does not answer");
        away.insert(server);
        Ok(())
    }

    /// The first slot of the server of a cluster that has the key.
    fn server_of(&self, key: &str) -> Option<u16> {
        let servers = self.connection.slots_by_server();
        if servers.len() < 2 {
            return None;
        }
        let slot = self.connection.slot(key);
        let slots = servers.into_iter().find(|slots| slots.contains(&slot))?;
        slots.into_iter().min()
    }
}

fn project_of(name: &str) -> Result<ProjectId, Error> {
    keys::decoded(name).ok_or_else(|| Error::Corrupt(format!("{name:?} is registered as a project")))
}

pub(super) fn queue_of(project: &ProjectId, name: QueueName) -> Result<QueueId, Error> {
    QueueId::new(project.clone(), name).map_err(|error| Error::Corrupt(format!("the register of {project}: {error}")))
}
