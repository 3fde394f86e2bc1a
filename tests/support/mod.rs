//! The stage: Redis servers and clusters, Sukkal itself, a network that breaks, Python and Node.js.

pub(crate) mod chronicle;
pub(crate) mod cluster;
pub(crate) mod events;
pub(crate) mod exposition;
#[cfg(feature = "movable-clock")]
pub(crate) mod ground;
mod installed;
pub(crate) mod node;
pub(crate) mod ports;
pub(crate) mod proxy;
pub(crate) mod python;
pub(crate) mod redis;
pub(crate) mod sukkal;
