//! The wire format: parses request bodies and queries into domain types, and writes domain types as
//! documents. Has the only table from errors to statuses.

pub mod body;
pub mod checksum;
pub mod claims;
pub mod confirmation;
pub mod error;
pub mod flavors;
pub mod frame;
pub mod headers;
pub mod health;
pub mod home;
pub mod json;
pub mod links;
pub mod messages;
pub mod metadata_patch;
pub mod notification;
pub mod paths;
pub mod pools;
pub mod purge;
pub mod query;
pub mod quotas;
pub mod share;
pub mod since;
pub mod state;
pub mod stats;
pub mod subscriptions;
pub mod tasks;
mod timestamp;
pub mod tokens;
pub mod trace_context;
pub mod view;

pub use error::Error;
