//! The walk over all registered queues. It also finds names without a queue, and projects without a
//! name.

use std::collections::HashSet;

use tracing::warn;

use crate::catalogue::MoveState;
use crate::redis::RedisStore;
use crate::redis::keys::{self, QueueKeys};
use crate::{Error, NameRange};
use sukkal_domain::{ProjectId, QueueId, QueueName};

const QUEUES_PER_STEP: usize = 16;

/// The servers of a cluster that did not answer during a walk, each by its first slot.
pub(super) type UnreachableServers = HashSet<u16>;

impl RedisStore {
    /// Visits the next few registered queues after `after`, except those of unreachable servers.
    /// Returns how many there are and the last of them, `None` at the end.
    pub(super) async fn walk_step(
        &self,
        after: Option<&QueueId>,
        unreachable: &mut UnreachableServers,
    ) -> Result<(u64, Option<QueueId>), Error> {
        let queues = self.queues_after(after, unreachable).await?;
        for queue in &queues {
            if self.is_unreachable(QueueKeys::of(queue).prefix(), unreachable) {
                continue;
            }
            match self.resolve_and_maintain(queue).await {
                // One queue that cannot be read must not keep the janitor from the ones after it.
                Err(Error::Corrupt(reason)) => warn!(%queue, reason, "the janitor skips a queue that cannot be read"),
                outcome => self.skip_if_unreachable(QueueKeys::of(queue).prefix(), outcome, unreachable)?,
            }
        }
        Ok((queues.len() as u64, queues.last().cloned()))
    }

    /// Visits a queue, after its moves to other pools have been settled as far as possible.
    async fn resolve_and_maintain(&self, queue: &QueueId) -> Result<(), Error> {
        if self.other_stores.exist() && matches!(self.move_state(queue).await?, MoveState::Moves { .. }) {
            // Another store may be unreachable. The queues after this one must not wait for it.
            if let Err(error) = self.other_stores.destinations(self)?.resolve_moves(queue).await {
                warn!(%queue, %error, "cannot settle the move of a queue; the janitor tries again later");
            }
        }
        self.maintain_queue(queue).await
    }

    /// Returns the next few registered queues, all of one project; none at the end. Removes
    /// projects that have no queue, and skips projects whose register is unreachable.
    pub(super) async fn queues_after(
        &self,
        after: Option<&QueueId>,
        unreachable: &mut UnreachableServers,
    ) -> Result<Vec<QueueId>, Error> {
        let mut project = after.map(|queue| queue.project().clone());
        let mut name = after.map(QueueId::name).cloned();
        loop {
            let mut registration = None;
            if name.is_none() {
                registration = self.project_after(project.as_ref()).await?;
                project = registration.as_ref().map(|found| project_of(&found.name)).transpose()?;
            }
            let Some(current) = project.clone() else {
                return Ok(Vec::new());
            };
            let register = keys::queue_register(&current);
            if !self.is_unreachable(&register, unreachable) {
                let names = NameRange::after(name.as_ref());
                match self.registered_names(&current, &names, QUEUES_PER_STEP).await {
                    Ok(names) if !names.is_empty() => {
                        return names.into_iter().map(|name| queue_of(&current, name)).collect();
                    }
                    Ok(_none) => {
                        if let Some(empty) = registration {
                            self.remove_project(&empty).await?;
                        }
                    }
                    Err(Error::Corrupt(reason)) => {
                        warn!(project = %current, reason, "the janitor skips a project whose register cannot be read");
                    }
                    Err(error) => self.skip_if_unreachable(&register, Err(error), unreachable)?,
                }
            }
            name = None;
        }
    }

    /// Returns whether a key is on a server of a cluster that is unreachable.
    fn is_unreachable(&self, key: &str, unreachable: &UnreachableServers) -> bool {
        !unreachable.is_empty() && self.first_slot_of_server(key).is_some_and(|server| unreachable.contains(&server))
    }

    /// Adds the server that has this key to the unreachable ones, if it did not answer. Without a
    /// cluster, returns the failure unchanged.
    fn skip_if_unreachable(
        &self,
        key: &str,
        outcome: Result<(), Error>,
        unreachable: &mut UnreachableServers,
    ) -> Result<(), Error> {
        let Err(Error::Unavailable(reason)) = &outcome else {
            return outcome;
        };
        let Some(server) = self.first_slot_of_server(key) else {
            return outcome;
        };
        warn!(reason, "the janitor skips the queues of a server that does not answer");
        unreachable.insert(server);
        Ok(())
    }

    /// Returns the first slot of the server of a cluster that has the key.
    fn first_slot_of_server(&self, key: &str) -> Option<u16> {
        let servers = self.connection.servers.slots_by_server();
        if servers.len() < 2 {
            return None;
        }
        let slot = self.connection.servers.slot(key);
        let slots = servers.into_iter().find(|slots| slots.contains(&slot))?;
        slots.into_iter().min()
    }
}

pub(in crate::redis) fn project_of(name: &str) -> Result<ProjectId, Error> {
    keys::decode_project(name)
        .ok_or_else(|| Error::Corrupt(format!("the register of projects has the invalid name {name:?}")))
}

pub(super) fn queue_of(project: &ProjectId, name: QueueName) -> Result<QueueId, Error> {
    QueueId::new(project.clone(), name).map_err(|error| Error::Corrupt(format!("the register of {project}: {error}")))
}
