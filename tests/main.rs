//! All integration tests, in one binary: it is linked once, and its tests share servers.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on is a test that fails")]

#[allow(dead_code, reason = "each part of the stage serves some of the tests")]
mod support;

mod blocking;
mod cli;
mod clients;
mod conformance;
mod documented;
mod exclusive;
mod faults;
mod http;
mod race;
mod resizing;
mod tidy;
mod wakeups;
mod wire;
