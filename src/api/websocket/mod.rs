//! WebSockets: the actions of the API as messages of one connection, and notifications of messages.
//!
//! `upgrade.rs` opens a connection, and `connection.rs` serves it. A request in a frame becomes an
//! HTTP request of the equivalent route (`action.rs`) with the credential of the connection
//! (`session.rs`). It passes the same middleware as every other request, and `actions/` has its
//! handlers. `notifications.rs` follows the queues that the connection has subscribed to.

mod action;
mod actions;
mod connection;
mod counted;
mod frame_bounds;
pub(super) mod limits;
mod notifications;
mod refusal;
mod reply;
mod session;
pub(super) mod slots;
mod upgrade;

pub(super) use self::action::PATH;
pub use self::limits::WebSocketLimits;
pub(super) use self::upgrade::open;
