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
use super::action::{Action, Permission};
use super::error::Requirement;
use crate::auth::policy::Policy;
use crate::auth::{Caller, Client, instant_of};
use crate::observability::metrics::Metrics;
use crate::observability::request_id::{current_trail, with_current_span};
use crate::observability::telemetry::{Part, Span};
use sukkal_domain::token_draft::InvalidToken;
use sukkal_domain::{ProjectId, QueueId, QueueKind};
use sukkal_storage::{DeliverySignal, Driver, Permit, Watch, Weight};

/// The resource that an action works on. It decides how the store admits the action's operations.
#[derive(Clone, Debug)]
pub(super) enum Resource {
    Queue(QueueId),
    /// The project's list of queues of this kind.
    Project(ProjectId, QueueKind),
    /// The store as a whole.
    Store,
}

/// The store, which callers reach after their action is authorized.
pub(super) struct GuardedStore(Arc<Guarded>);

/// The store and what every access to it needs.
struct Guarded {
    driver: Arc<dyn Driver>,
    policy: Policy,
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
        Self::Project(project.clone(), QueueKind::Queue)
    }
}

impl Resource {
    /// Returns what the action needs for this resource.
    fn permission(&self, action: Action) -> Permission {
        let kind = match self {
            Self::Queue(queue) => queue.name().kind(),
            Self::Project(_, kind) => *kind,
            Self::Store => QueueKind::Queue,
        };
        match (kind, action.permission()) {
            (QueueKind::Topic, Permission::Rule(rule)) => Permission::Rule(rule.for_topics()),
            (_, permission) => permission,
        }
    }
}

impl GuardedStore {
    /// Guards a store for the callers that the policy allows. Its operations wait at most
    /// `admission_wait_max` for their admission, and are recorded in the metrics.
    pub(super) fn new(
        driver: Arc<dyn Driver>,
        policy: Policy,
        admission_wait_max: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self(Arc::new(Guarded { driver, policy, admission_wait_max, metrics }))
    }

    /// Returns whether the caller may perform the action on queues.
    pub(super) fn allows(&self, caller: &Caller, action: Action) -> bool {
        self.permits(caller, action.permission())
    }

    fn permits(&self, caller: &Caller, permission: Permission) -> bool {
        match (caller, permission) {
            (Caller::System | Caller::SystemAs(_), _) | (_, Permission::Everybody) => true,
            (Caller::Client(client), Permission::Rule(rule)) => self.0.policy.allows(client, rule),
            (Caller::Client(_) | Caller::Anonymous, _) => false,
        }
    }

    /// Succeeds if the caller may name another queue of its project, to which the service then
    /// posts in its name. `key` is the key or the option that names the queue. Guests may not,
    /// because they have rights on one queue only.
    ///
    /// # Errors
    ///
    /// [`Error::ForbiddenTarget`] if the caller may not post messages, or is a guest.
    pub(super) fn authorize_target(&self, caller: &Caller, key: &'static str) -> Result<(), Error> {
        let (action, permission) = (Action::PostMessages, Action::PostMessages.permission());
        let is_guest = caller.as_client().is_some_and(Client::is_guest);
        let is_allowed = !is_guest && self.permits(caller, permission);
        note(caller, action, permission, is_allowed);
        if is_allowed { Ok(()) } else { Err(self.forbidden_target(key)) }
    }

    /// Returns the error of a caller who may not post messages to the queue that it names in `key`.
    pub(super) fn forbidden_target(&self, key: &'static str) -> Error {
        let requirement = self.requirement(Action::PostMessages.permission());
        requirement.map_or(Error::Forbidden, |requirement| Error::ForbiddenTarget { key, requirement })
    }

    /// Returns the rule that gives a permission, if one does.
    pub(super) fn requirement(&self, permission: Permission) -> Option<Requirement> {
        let Permission::Rule(rule) = permission else { return None };
        Some(Requirement { rule: rule.name(), expression: self.0.policy.requirement(rule) })
    }

    /// Refuses roles that the policy does not name, because they would have no effect.
    pub(super) fn require_known(&self, roles: &[String]) -> Result<(), InvalidToken> {
        let policy = &self.0.policy;
        roles.iter().find(|role| !policy.names(role)).map_or(Ok(()), |role| {
            let nearest = policy.nearest_role(role).map(str::to_owned);
            Err(InvalidToken::UnknownRole { role: role.clone(), nearest })
        })
    }

    /// Returns the store for one action of this caller.
    ///
    /// # Errors
    ///
    /// [`Error::Denied`] or [`Error::Forbidden`] if the caller may not perform the action.
    pub(super) fn authorize(
        &self,
        caller: &Caller,
        action: Action,
        resource: impl Into<Resource>,
    ) -> Result<Access, Error> {
        let resource = resource.into();
        let permission = resource.permission(action);
        let is_allowed = self.permits(caller, permission);
        note(caller, action, permission, is_allowed);
        if !is_allowed {
            return Err(self.requirement(permission).map_or(Error::Forbidden, Error::Denied));
        }
        let span = with_current_span(|request| action_span(request, action, &resource));
        let is_background = matches!(caller, Caller::System);
        let expires_at = caller.as_client().and_then(Client::expires_at);
        Ok(Access { guarded: self.0.clone(), resource, is_background, expires_at, span })
    }
}

/// Notes the decision about an action of a client for the audit log.
fn note(caller: &Caller, action: Action, permission: Permission, is_allowed: bool) {
    if let (Caller::Client(_), Permission::Rule(rule), Some(trail)) = (caller, permission, current_trail()) {
        trail.note_action(rule.name(), action.is_audited(), is_allowed);
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
        Resource::Project(project, _) => span.set("sukkal.project", project.as_str().to_owned()),
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
    pub(super) async fn admit(&self) -> Result<AdmittedStore, sukkal_storage::Error> {
        self.admit_weighted(Weight::ONE).await
    }

    /// Does the same for an operation of this weight.
    ///
    /// # Errors
    ///
    /// Those of [`storage::Admission::acquire`].
    pub(super) async fn admit_weighted(&self, weight: Weight) -> Result<AdmittedStore, sukkal_storage::Error> {
        let Guarded { driver, admission_wait_max, metrics, .. } = &*self.guarded;
        let (admission, project) = match &self.resource {
            _ if self.is_background => return Ok(self.unlimited()),
            Resource::Queue(queue) => {
                let admission = if let Some(admission) = driver.known_queue_admission(queue) {
                    admission
                } else {
                    driver.locate(queue, *admission_wait_max).await?;
                    driver.queue_admission(queue)
                };
                (admission, queue.project())
            }
            Resource::Project(project, _) => (driver.project_admission(project), project),
            Resource::Store => return Ok(self.unlimited()),
        };
        let admitted = admission.acquire_weighted(project, weight, *admission_wait_max).await;
        if admitted.as_ref().is_err_and(|error| *error == sukkal_storage::Error::Overloaded) {
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
        instant_of(self.expires_at?)
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
    pub(super) async fn watch(&self, queue: &QueueId) -> Result<Watch, sukkal_storage::Error> {
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

impl AdmittedStore {
    /// Passes the permit on to the next waiting request. This is for an operation that waits for
    /// other servers than the store's, whose number the driver bounds.
    pub(super) fn release_permit(&mut self) {
        if let Some(in_flight) = self.in_flight.take() {
            self.guarded.metrics.record_store_operation(in_flight.began.elapsed());
        }
    }
}

impl Drop for AdmittedStore {
    fn drop(&mut self) {
        self.release_permit();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::policy::{Overrides, Preset};
    use sukkal_domain::role;
    use sukkal_storage::embedded::EmbeddedStore;

    fn client(roles: &[&str]) -> Client {
        Client::of_test("p", roles)
    }

    fn store(policy: Policy) -> GuardedStore {
        GuardedStore::new(Arc::new(EmbeddedStore::in_memory().unwrap()), policy, Duration::MAX, Arc::default())
    }

    #[test]
    fn roles_are_equal_in_upper_and_lower_case_and_one_of_several_is_enough() {
        let store = store(Policy::new(Preset::Roles, Overrides::default()));
        let may = |roles: &[&str]| store.allows(&Caller::Client(client(roles)), Action::DeleteQueue);

        assert!(may(&["MANAGER"]) && may(&["x", "reader", "Manager"]));
        assert!(!may(&["managers"]) && !may(&["manage"]) && !may(&[""]) && !may(&["x", "worker"]));
    }

    #[test]
    fn the_service_may_do_everything_and_anonymous_callers_may_only_monitor() {
        let nobody = Overrides::parse(&["messages:create = !"]).unwrap();
        let store = store(Policy::new(Preset::Zaqar, nobody));
        for &action in Action::ALL {
            let is_monitoring = [Action::ProbeStore, Action::ReadMetrics].contains(&action);

            let is_of_the_service = action.permission() == Permission::Service;
            let admin = Caller::Client(client(&["admin"]));

            assert_eq!(store.allows(&Caller::Anonymous, action), is_monitoring, "{action:?}");
            assert!(!is_of_the_service || !store.allows(&admin, action), "{action:?}");
            assert!(store.allows(&Caller::System, action), "{action:?}");
            assert!(store.allows(&Caller::SystemAs(client(&[])), action), "{action:?}");
        }
        assert!(!store.allows(&Caller::Client(client(&["admin"])), Action::PostMessages));
    }

    /// The role is in the texts of the presets.
    #[test]
    fn the_role_of_signed_requests_is_that_of_the_presets() {
        let store = store(Policy::new(Preset::Roles, Overrides::default()));

        assert!(store.allows(&Caller::Client(client(&[role::SIGNED_URL])), Action::ListMessages));
    }
}
