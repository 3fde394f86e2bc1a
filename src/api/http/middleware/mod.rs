//! The steps that every request passes through on the way to its handler, and its response on the
//! way back.
//!
//! [`stack`] puts the steps together. From the outside in they are: request log, metrics, body
//! drain, panic handling, checks of the head, description of an outage, and admission.

pub(super) mod admission;
pub(super) mod body_drain;
mod identity;
pub(super) mod metering;
mod operator;
pub(super) mod outage;
mod request_log;
mod signature;
pub(super) mod stack;
