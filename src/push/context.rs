//! What all deliveries of a process use.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::client::{SendFailure, SubscriberClient};
use super::mail::Mailer;
use crate::auth::Trusts;
use crate::observability::metrics::Metrics;
use sukkal_base::memory_budget::MemoryBudget;
use sukkal_domain::AddressRules;

/// The client, the options and the metrics of all deliveries.
pub(super) struct Context {
    pub(super) client: SubscriberClient,
    /// Sends mails, if the operator wants some.
    pub(super) mailer: Option<Mailer>,
    pub(super) rules: AddressRules,
    /// Returns tokens for subscribers that need a trust.
    pub(super) trusts: Option<Arc<dyn Trusts>>,
    /// Memory for the messages whose attempts have begun, also for those that wait for a
    /// connection.
    pub(super) memory: MemoryBudget,
    /// Memory for the options of the subscriptions that deliverers have loaded.
    pub(super) options_memory: MemoryBudget,
    /// Time after which a subscription is disabled if every attempt has failed.
    pub(super) disable_after: Duration,
    /// Whether all subscribers must confirm before they are notified.
    pub(super) requires_confirmation: bool,
    pub(super) metrics: Arc<Metrics>,
    /// Canceled when the process stops.
    pub(super) stopping: CancellationToken,
}

impl Context {
    /// Returns whether this subscriber must confirm before it is notified.
    pub(super) fn requires_confirmation(&self, subscriber: &str) -> bool {
        let must_confirm = |mailer: &Mailer| mailer.rules().recipients_must_confirm(subscriber);
        self.requires_confirmation || self.mailer.as_ref().is_some_and(must_confirm)
    }

    /// Returns what sends mails, or why none are sent.
    pub(super) fn mailer(&self) -> Result<&Mailer, SendFailure> {
        self.mailer.as_ref().ok_or_else(|| SendFailure::Refused("this process sends no mails".to_owned()))
    }

    /// Returns whether the process stops, so that no attempt begins any more.
    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }
}
