//! Authorization: the store can be reached only through [`GuardedStore::authorize`].
//!
//! The compiler enforces this. The driver is a private field of [`GuardedStore`], so no other
//! module can call it. [`AdmittedStore`], which offers the driver's operations, is made from an
//! [`Access`], and an [`Access`] is made by [`GuardedStore::authorize`] alone. An operation that
//! does not state its caller and its [`Action`] therefore has no store to work with. The compiler
//! does not check that the operation which is then called is the one that the action names.

use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::broadcast;

use super::Error;
use crate::auth::{Caller, Client};
use crate::domain::{ProjectId, QueueId};
use crate::metrics::Metrics;
use crate::request_id::with_current_span;
use crate::storage::{self, DeliverySignal, Driver, Permit, Watch};
use crate::telemetry::{Part, Span};

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
    /// `subscription:get_all`
    ListSubscriptions,
    /// `subscription:create`
    CreateSubscription,
    /// `subscription:get`
    GetSubscription,
    /// `subscription:update`
    UpdateSubscription,
    /// `subscription:delete`
    DeleteSubscription,
    /// `subscription:confirm`
    ConfirmSubscription,
    /// Lists the last attempts to notify a subscriber. Zaqar has neither the operation nor a policy
    /// for it.
    ListAttempts,
    /// Stops the notifications of a subscriber, as above.
    PauseSubscription,
    /// Continues the notifications of a subscriber, as above.
    ResumeSubscription,
    /// Notifies a subscriber of messages again, as above.
    Redeliver,
    /// Creates a token. Zaqar has neither tokens nor policies for them.
    CreateToken,
    /// Lists tokens, or shows one.
    ListTokens,
    /// Deletes a token.
    DeleteToken,
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
    /// Delivers the messages of a queue to its subscribers.
    Deliver,
    /// Reads the token that a request presents.
    FindToken,
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
pub(super) struct GuardedStore(Arc<Guarded>);

/// The store and what every access to it needs.
struct Guarded {
    driver: Arc<dyn Driver>,
    admission_wait_max: Duration,
    metrics: Arc<Metrics>,
}

/// The store for one authorized action.
#[derive(Clone)]
pub(super) struct Access {
    guarded: Arc<Guarded>,
    resource: Resource,
    is_background: bool,
    /// The time at which the caller's credential expires; `None` if it does not expire.
    expires_at: Option<SystemTime>,
    /// The span of the action, if the request is traced. It lasts until the action is done with the
    /// store.
    span: Option<Span>,
}

/// The store for one admitted operation, which is in flight for as long as this exists.
pub(super) struct AdmittedStore {
    guarded: Arc<Guarded>,
    in_flight: Option<InFlight>,
    /// The span of the operation, if the request is traced.
    _span: Option<Span>,
}

/// An operation of a request that is in flight.
struct InFlight {
    _permit: Permit,
    began: Instant,
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
    /// Guards a store whose operations wait at most `admission_wait_max` for their admission, and
    /// are recorded in the metrics.
    pub(super) fn new(driver: Arc<dyn Driver>, admission_wait_max: Duration, metrics: Arc<Metrics>) -> Self {
        Self(Arc::new(Guarded { driver, admission_wait_max, metrics }))
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
        let resource = resource.into();
        let span = with_current_span(|request| action_span(request, action, &resource));
        let is_background = matches!(caller, Caller::System);
        let expires_at = caller.as_client().and_then(Client::expires_at);
        Ok(Access { guarded: self.0.clone(), resource, is_background, expires_at, span })
    }
}

/// Starts the span of an action.
fn action_span(request: &Span, action: Action, resource: &Resource) -> Span {
    let span = request.child(format!("{action:?}"), Part::Operation);
    match resource {
        Resource::Queue(queue) => {
            span.set("sukkal.project", queue.project().as_str().to_owned());
            span.set("messaging.destination.name", queue.name().as_str().to_owned());
        }
        Resource::Project(project) => span.set("sukkal.project", project.as_str().to_owned()),
        Resource::Store => {}
    }
    span
}

impl Access {
    /// Waits until the store admits one operation, in the turn of the resource's project.
    /// Background work and operations on the store as a whole are admitted at once.
    ///
    /// # Errors
    ///
    /// Those of [`storage::Admission::acquire`].
    pub(super) async fn admit(&self) -> Result<AdmittedStore, storage::Error> {
        let Guarded { driver, admission_wait_max, metrics } = &*self.guarded;
        let (admission, project) = match &self.resource {
            _ if self.is_background => return Ok(self.unlimited()),
            Resource::Queue(queue) => (driver.queue_admission(queue), queue.project()),
            Resource::Project(project) => (driver.project_admission(project), project),
            Resource::Store => return Ok(self.unlimited()),
        };
        let admitted = admission.acquire(project, *admission_wait_max).await;
        if admitted.as_ref().is_err_and(|error| *error == storage::Error::Overloaded) {
            metrics.count_refused_request();
        }
        Ok(self.admitted(Some(InFlight { _permit: admitted?, began: Instant::now() })))
    }

    fn unlimited(&self) -> AdmittedStore {
        self.admitted(None)
    }

    fn admitted(&self, in_flight: Option<InFlight>) -> AdmittedStore {
        let span = self.span.as_ref().map(|span| span.child("store", Part::Store));
        AdmittedStore { guarded: self.guarded.clone(), in_flight, _span: span }
    }

    /// Returns when the caller's credential expires, after which the caller may not go on waiting;
    /// `None` if it does not expire.
    pub(super) fn expiry(&self) -> Option<tokio::time::Instant> {
        let remaining = self.expires_at?.duration_since(SystemTime::now()).unwrap_or_default();
        tokio::time::Instant::now().checked_add(remaining)
    }

    /// Returns the same access for background work that takes its turn among the requests of
    /// clients.
    pub(super) fn in_turn(self) -> Self {
        Self { is_background: false, ..self }
    }

    /// Receives the queues in which deliveries may be due. This needs no admission.
    pub(super) fn delivery_signals(&self) -> broadcast::Receiver<DeliverySignal> {
        self.guarded.driver.delivery_signals()
    }

    /// Returns the same access for work that outlives the request, and is not traced.
    pub(super) fn untraced(self) -> Self {
        Self { span: None, ..self }
    }

    /// Subscribes to the queue. A watch is not an operation in flight, so it needs no admission.
    pub(super) async fn watch(&self, queue: &QueueId) -> Result<Watch, storage::Error> {
        self.guarded.driver.watch(queue).await
    }

    /// Reports that a waiter's query has finished, as [`storage::WatchStore::query_finished`] asks.
    pub(super) fn query_finished(&self, queue: &QueueId) {
        self.guarded.driver.query_finished(queue);
    }
}

impl Deref for AdmittedStore {
    type Target = dyn Driver;

    fn deref(&self) -> &Self::Target {
        &*self.guarded.driver
    }
}

impl Drop for AdmittedStore {
    fn drop(&mut self) {
        if let Some(in_flight) = &self.in_flight {
            self.guarded.metrics.record_store_operation(in_flight.began.elapsed());
        }
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

/// The actions of clients that need the role of operators.
const ADMIN_ACTIONS: [Action; 5] =
    [Action::CheckHealth, Action::ListProjects, Action::CreateToken, Action::ListTokens, Action::DeleteToken];

/// The policy: clients may do everything but what needs the role of operators, and what only the
/// service itself does.
fn is_allowed(caller: &Caller, action: Action) -> bool {
    match caller {
        Caller::Client(_) if action == Action::FindToken => false,
        Caller::Client(client) => !ADMIN_ACTIONS.contains(&action) || client.is_admin(),
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
        Caller::Client(Client { project: ProjectId::new("p").unwrap(), id, roles, identity: None })
    }

    #[test]
    fn only_operators_may_check_the_health_list_projects_and_manage_tokens() {
        for action in ADMIN_ACTIONS {
            assert!(is_allowed(&client(&["member", "Admin"]), action));
            assert!(!is_allowed(&client(&["member"]), action));
        }
        assert!(is_allowed(&client(&[]), Action::DeleteQueue));
        assert!(!is_allowed(&client(&["admin"]), Action::FindToken));
    }

    #[test]
    fn anonymous_callers_may_only_monitor() {
        assert!(is_allowed(&Caller::Anonymous, Action::ProbeStore));
        assert!(is_allowed(&Caller::Anonymous, Action::ReadMetrics));
        assert!(!is_allowed(&Caller::Anonymous, Action::Ping));
        assert!(!is_allowed(&Caller::Anonymous, Action::ListMessages));
    }
}
