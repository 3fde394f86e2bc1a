//! Sukkal, a stateless REST messaging service.
#![cfg_attr(doc, doc = "")]
#![cfg_attr(doc, doc = include_str!("../ARCHITECTURE.md"))]

pub mod api;
pub mod app;
pub mod auth;
pub mod authentication;
pub mod broker;
pub mod cli;
pub mod config;
pub mod console;
pub mod descriptors;
pub mod janitor;
pub mod observability;
pub mod push;
pub mod service_manager;
pub mod wire;
