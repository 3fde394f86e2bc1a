//! The steps that every request passes through on the way to its handler, and its response on the
//! way back.
//!
//! [`stack`] puts the steps together. From the outside in they are: request log, body drain, audit
//! log, metrics, panic handling, checks of the head, preflights, description of an outage, and
//! checks of the request. The headers for web pages of other origins are added last.

mod audit;
pub(super) mod authentication;
pub(super) mod body_drain;
mod cors;
pub(super) mod identity;
pub(super) mod metering;
pub(super) mod operator;
pub(super) mod outage;
pub(super) mod own_host;
pub(super) mod request_checks;
pub(super) mod request_log;
pub(super) mod response_memory;
mod signature;
pub(super) mod stack;
