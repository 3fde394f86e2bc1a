//! All that is on the wire: HTTP routes, documents, and the one table from errors to statuses.

pub mod error;
pub mod http;
pub mod wire;

pub use error::Error;
