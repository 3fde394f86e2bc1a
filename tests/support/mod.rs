//! The test environment: Redis servers and clusters, Sukkal processes, a proxy that simulates
//! network faults, certificates, Python and Node.js.

pub(crate) mod browser;
pub(crate) mod certificates;
pub(crate) mod cluster;
pub(crate) mod collector;
pub(crate) mod events;
pub(crate) mod exposition;
mod installed;
pub(crate) mod node;
pub(crate) mod ports;
pub(crate) mod proxy;
pub(crate) mod python;
pub(crate) mod random;
pub(crate) mod redis;
pub(crate) mod secrets;
pub(crate) mod socket;
pub(crate) mod sukkal;
#[cfg(feature = "movable-clock")]
pub(crate) mod test_bed;
pub(crate) mod timeline;
