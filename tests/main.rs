//! All integration tests, in one binary: it is linked once, and its tests share servers.

#[allow(
    dead_code,
    clippy::panic,
    reason = "each part of the support serves some of the tests; a broken stage is no result"
)]
mod support;

mod clients;
mod conformance;
mod faults;
mod http;
mod race;
mod tidy;
