//! Operations on subscriptions.

mod change;
mod creation;
mod lookup;
mod reading;
mod redelivery;
mod trust;

pub use self::creation::{Subscribed, SubscriptionRequest};
pub use self::redelivery::RedeliveryRequest;
