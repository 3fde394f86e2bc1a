//! The subscriptions of a queue that a deliverer has loaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::push::subscription::SubscriptionDeliveries;
use crate::push::target::Target;
use sukkal_base::memory_budget::MemoryShare;
use sukkal_domain::{SubscriptionId, SubscriptionState};

/// A subscription and what its attempts need.
pub(super) struct Managed {
    pub(super) state: SubscriptionDeliveries,
    pub(super) target: Arc<Target>,
    /// The memory of its options.
    pub(super) memory: MemoryShare,
}

impl Managed {
    /// Sends nothing more in this process. The store follows.
    pub(super) fn stop(&mut self, state: SubscriptionState) {
        self.state.stop(state);
        self.target.retire();
    }
}

impl Drop for Managed {
    /// The subscription is gone, or another process has the lease.
    fn drop(&mut self) {
        self.target.retire();
    }
}

/// The subscriptions of a queue. Those that are paused, disabled or not confirmed are kept apart,
/// so that they cost nothing when a message is posted.
#[derive(Default)]
pub(super) struct Subscribers {
    working: BTreeMap<SubscriptionId, Managed>,
    resting: BTreeMap<SubscriptionId, Managed>,
}

impl Subscribers {
    /// Returns the ids of all subscriptions.
    pub(super) fn ids(&self) -> impl Iterator<Item = SubscriptionId> {
        self.working.keys().chain(self.resting.keys()).copied()
    }

    /// Returns the subscriptions that do not rest.
    pub(super) fn working(&self) -> impl Iterator<Item = (SubscriptionId, &Managed)> {
        self.working.iter().map(|(id, managed)| (*id, managed))
    }

    /// Returns the subscriptions that do not rest.
    pub(super) fn working_mut(&mut self) -> impl Iterator<Item = &mut Managed> {
        self.working.values_mut()
    }

    /// Returns all subscriptions.
    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Managed> {
        self.working.values_mut().chain(self.resting.values_mut())
    }

    pub(super) fn get(&self, id: SubscriptionId) -> Option<&Managed> {
        self.working.get(&id).or_else(|| self.resting.get(&id))
    }

    /// Returns a subscription, which no longer rests.
    pub(super) fn get_mut(&mut self, id: SubscriptionId) -> Option<&mut Managed> {
        self.working.extend(self.resting.remove_entry(&id));
        self.working.get_mut(&id)
    }

    pub(super) fn insert(&mut self, id: SubscriptionId, managed: Managed) {
        self.working.insert(id, managed);
    }

    pub(super) fn remove(&mut self, id: SubscriptionId) {
        self.working.remove(&id);
        self.resting.remove(&id);
    }

    /// Lets the subscriptions rest that have nothing to do until they are loaded again.
    pub(super) fn rest(&mut self) {
        let is_at_rest = |(id, managed): (&_, &Managed)| managed.state.is_at_rest().then_some(*id);
        let at_rest: Vec<_> = self.working.iter().filter_map(is_at_rest).collect();
        for id in at_rest {
            self.resting.extend(self.working.remove_entry(&id));
        }
    }
}
