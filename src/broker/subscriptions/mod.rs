//! Operations on subscriptions.

mod change;
mod connected;
mod creation;
mod lookup;
mod mail;
mod reading;
mod redelivery;
mod targets;
mod trust;

pub use self::change::ConfirmedBy;
pub use self::connected::{ConnectedSubscription, EndReason, SubscriptionEnd};
pub use self::creation::{Subscribed, SubscriptionRequest};
pub use self::redelivery::RedeliveryRequest;
