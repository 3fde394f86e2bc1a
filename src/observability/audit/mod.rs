//! The audit log: a line for each change of queues, subscriptions and tokens, for each request that
//! acts on another project, and for each refused request.
//!
//! A request has a [`Trail`]. The middleware and the broker note on it who sends the request and
//! what the policy decided. When the outcome is known, the trail becomes a record, which the
//! [`AuditLog`] passes to a thread that writes the file.

mod budget;
mod file;
mod log;
mod losses;
mod record;
mod trail;

pub use self::log::AuditLog;
pub use self::trail::{Origin, Response, Trail};
