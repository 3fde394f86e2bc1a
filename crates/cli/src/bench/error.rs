//! Why `sukkal bench` has no figures.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why there are no figures.
#[derive(Debug, Error)]
pub(super) enum Error {
    #[error("cannot connect to {url}: {source}")]
    Unreachable { url: String, source: io::Error },
    /// The service does not do what the run needs first.
    #[error("{0}")]
    Setup(String),
    #[error("cannot write {}: {source}", path.display())]
    Report { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Io(#[from] io::Error),
}
