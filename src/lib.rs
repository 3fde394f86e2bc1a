//! Sukkal, a stateless REST messaging service: `ARCHITECTURE.md` is the way in.

pub mod auth;
pub mod broker;
pub mod domain;
pub mod storage;
