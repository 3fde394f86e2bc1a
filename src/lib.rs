//! Sukkal, a stateless REST messaging service: `ARCHITECTURE.md` is the way in.

pub mod api;
pub mod app;
pub mod auth;
pub mod broker;
pub mod cli;
pub mod config;
pub mod descriptors;
pub mod domain;
pub mod janitor;
pub mod metrics;
pub mod request_id;
pub mod storage;
