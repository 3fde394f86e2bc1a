//! Why the configuration cannot be used.

use std::path::PathBuf;

use thiserror::Error;

/// Why the configuration cannot be used. The message is one line.
#[derive(Debug, Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("--config: cannot read {}: {reason}", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
    /// An option does not exist or does not accept its value, or the file is not valid TOML.
    #[error("{0}")]
    Invalid(String),
}
