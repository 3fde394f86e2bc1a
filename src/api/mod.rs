//! The HTTP API: routes, the wire format of documents, and the only table from errors to statuses.

pub mod error;
pub mod http;
pub mod wire;

pub use error::Error;
