//! The test environment: Redis servers and clusters, Sukkal processes, a proxy that simulates
//! network faults, certificates, Python and Node.js.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    clippy::new_without_default,
    clippy::return_self_not_must_use,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and only tests and benchmarks use this library"
)]

pub mod browser;
pub mod calls;
pub mod campaign;
pub mod certificates;
pub mod cluster;
pub mod collector;
pub mod events;
pub mod exposition;
pub mod http_stub;
pub mod memory;
pub mod node;
pub mod plain_http;
pub mod ports;
pub mod proxy;
pub mod python;
pub mod random;
pub mod redis;
pub mod report;
pub mod secrets;
pub mod socket;
pub mod sukkal;
pub mod test_bed;
pub mod timeline;
pub mod waiting;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns the root of the repository.
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Locks a value, also after another thread has panicked while it used it.
pub fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
