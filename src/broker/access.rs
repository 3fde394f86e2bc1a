//! Authorization: the store can be reached only through [`GuardedStore::authorize`].
//!
//! The compiler enforces this. The driver is a private field of [`GuardedStore`], so no other
//! module can call it. [`AdmittedStore`], which offers the driver's operations, is made from an
//! [`Access`], and an [`Access`] is made by [`GuardedStore::authorize`] alone. An operation that
//! does not state its caller and its [`Action`] therefore has no store to work with. The compiler
//! does not check that the operation which is then called is the one that the action names.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::Error;
use crate::auth::{Caller, Client};
use crate::domain::{ProjectId, QueueId};
use crate::storage::{self, Driver, Permit, Watch};

/// An operation that a caller asks for, with the name of its policy in Zaqar where it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `queues:get_all`
    ListQueues,
    /// `queues:get_all`, because the count is part of the list.
    CountQueues,
    /// `queues:create`
    CreateQueue,
    /// `queues:get`
    GetQueue,
    /// `queues:update`
    UpdateQueue,
    /// `queues:delete`
    DeleteQueue,
    /// `queues:stats`
    GetStats,
    /// `queues:share`
    ShareQueue,
    /// `queues:purge`
    PurgeQueue,
    /// Pauses the delivery of a queue's messages. Zaqar has neither the operation nor a policy for
    /// it.
    PauseQueue,
    /// Resumes the delivery of a queue's messages, as above.
    ResumeQueue,
    /// `messages:create`
    PostMessages,
    /// `messages:get_all`
    ListMessages,
    /// `messages:get_all`, as a stream of events.
    FollowMessages,
    /// `messages:get`
    GetMessage,
    /// `messages:get_all`, by their ids.
    GetMessages,
    /// `messages:delete`
    DeleteMessage,
    /// `messages:delete_all`
    DeleteMessages,
    /// `messages:delete_all`, which covers pops.
    PopMessages,
    /// `claims:create`
    CreateClaim,
    /// `claims:get`
    GetClaim,
    /// Lists the claims of a queue. Zaqar has neither the operation nor a policy for it.
    ListClaims,
    /// `claims:update`
    RenewClaim,
    /// Returns one message of a claim. Zaqar has neither the operation nor a policy for it.
    ReturnMessage,
    /// `claims:delete`
    ReleaseClaim,
    /// Lists all projects. Zaqar has neither the operation nor a policy for it.
    ListProjects,
    /// Starts a task that moves messages to other queues. Zaqar has neither the operation nor a
    /// policy for it.
    Redrive,
    /// Lists the tasks of a queue.
    ListTasks,
    /// Shows a task.
    GetTask,
    /// Stops or removes a task.
    DeleteTask,
    /// `ping:get`
    Ping,
    /// `health:get`
    CheckHealth,
    /// Verifies that the store can write, for the readiness probe.
    ProbeStore,
    /// Reads the metrics of the process.
    ReadMetrics,
    /// Ends a claim that was not delivered, as if it had never been created.
    WithdrawClaim,
    /// Stores popped messages again that were not delivered.
    RestoreMessages,
    /// Does the steps of a task.
    RunTask,
    /// Deletes the queues that earlier health checks have left.
    DeleteOldHealthQueues,
}

/// The resource that an action works on. It decides how the store admits the action's operations.
#[derive(Clone, Debug)]
pub(super) enum Resource {
    Queue(QueueId),
    /// The project's list of queues.
    Project(ProjectId),
    /// The store as a whole.
    Store,
}

/// The store, which callers reach after their action is authorized.
pub(super) struct GuardedStore {
    driver: Arc<dyn Driver>,
    admission_wait_max: Duration,
}

/// The store for one authorized action.
#[derive(Clone)]
pub(super) struct Access {
    driver: Arc<dyn Driver>,
    resource: Resource,
    admission_wait_max: Duration,
    is_background: bool,
}

/// The store for one admitted operation, which is in flight for as long as this exists.
pub(super) struct AdmittedStore {
    driver: Arc<dyn Driver>,
    _permit: Option<Permit>,
}

impl From<&QueueId> for Resource {
    fn from(queue: &QueueId) -> Self {
        Self::Queue(queue.clone())
    }
}

impl From<&ProjectId> for Resource {
    fn from(project: &ProjectId) -> Self {
        Self::Project(project.clone())
    }
}

impl GuardedStore {
    /// Guards a store whose operations wait at most `admission_wait_max` for their admission.
    pub(super) fn new(driver: Arc<dyn Driver>, admission_wait_max: Duration) -> Self {
        Self { driver, admission_wait_max }
    }

    /// Returns the store for one action of this caller.
    ///
    /// # Errors
    ///
    /// [`Error::Forbidden`] if the caller may not perform the action.
    pub(super) fn authorize(
        &self,
        caller: &Caller,
        action: Action,
        resource: impl Into<Resource>,
    ) -> Result<Access, Error> {
        if !is_allowed(caller, action) {
            return Err(Error::Forbidden);
        }
        Ok(Access {
            driver: self.driver.clone(),
            resource: resource.into(),
            admission_wait_max: self.admission_wait_max,
            is_background: matches!(caller, Caller::System),
        })
    }
}

impl Access {
    /// Waits until the store admits one operation, in the turn of the resource's project.
    /// Background work and operations on the store as a whole are admitted at once.
    ///
    /// # Errors
    ///
    /// Those of [`storage::Admission::acquire`].
    pub(super) async fn admit(&self) -> Result<AdmittedStore, storage::Error> {
        let (admission, project) = match &self.resource {
            _ if self.is_background => return Ok(self.unlimited()),
            Resource::Queue(queue) => (self.driver.queue_admission(queue), queue.project()),
            Resource::Project(project) => (self.driver.project_admission(project), project),
            Resource::Store => return Ok(self.unlimited()),
        };
        let permit = admission.acquire(project, self.admission_wait_max).await?;
        Ok(AdmittedStore { driver: self.driver.clone(), _permit: Some(permit) })
    }

    fn unlimited(&self) -> AdmittedStore {
        AdmittedStore { driver: self.driver.clone(), _permit: None }
    }

    /// Subscribes to the queue. A watch is not an operation in flight, so it needs no admission.
    pub(super) async fn watch(&self, queue: &QueueId) -> Result<Watch, storage::Error> {
        self.driver.watch(queue).await
    }

    /// Reports that a waiter's query has finished, as [`storage::WatchStore::query_finished`] asks.
    pub(super) fn query_finished(&self, queue: &QueueId) {
        self.driver.query_finished(queue);
    }
}

impl Deref for AdmittedStore {
    type Target = dyn Driver;

    fn deref(&self) -> &Self::Target {
        &*self.driver
    }
}

/// Returns the client that asks for an operation which is possible for clients only.
///
/// # Errors
///
/// [`Error::Forbidden`] if the caller is not a client.
pub(super) fn require_client(caller: &Caller) -> Result<&Client, Error> {
    caller.as_client().ok_or(Error::Forbidden)
}

/// The policy: clients may do everything but check the health and list projects, which need the role
/// of operators.
fn is_allowed(caller: &Caller, action: Action) -> bool {
    match caller {
        Caller::Client(client) => ![Action::CheckHealth, Action::ListProjects].contains(&action) || client.is_admin(),
        Caller::Anonymous => [Action::ProbeStore, Action::ReadMetrics].contains(&action),
        Caller::System => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ClientIdRule;

    fn client(roles: &[&str]) -> Caller {
        let id = ClientIdRule::Text(1..=9).parse("me").unwrap();
        let roles = roles.iter().map(|&role| role.to_owned()).collect();
        Caller::Client(Client { project: ProjectId::new("p").unwrap(), id, roles })
    }

    #[test]
    fn only_operators_may_check_the_health_and_list_projects() {
        for action in [Action::CheckHealth, Action::ListProjects] {
            assert!(is_allowed(&client(&["member", "Admin"]), action));
            assert!(!is_allowed(&client(&["member"]), action));
        }
        assert!(is_allowed(&client(&[]), Action::DeleteQueue));
    }

    #[test]
    fn anonymous_callers_may_only_monitor() {
        assert!(is_allowed(&Caller::Anonymous, Action::ProbeStore));
        assert!(is_allowed(&Caller::Anonymous, Action::ReadMetrics));
        assert!(!is_allowed(&Caller::Anonymous, Action::Ping));
        assert!(!is_allowed(&Caller::Anonymous, Action::ListMessages));
    }
}
