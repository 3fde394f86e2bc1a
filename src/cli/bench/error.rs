//! Why `sukkal bench` has no figures.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::connection::Failure;

/// Why there are no figures.
#[derive(Debug, Error)]
pub(super) enum Error {
    #[error("cannot connect to {url}: {source}")]
    Unreachable { url: String, source: io::Error },
    #[error("{what}: {failure}{}", if response.is_empty() { String::new() } else { format!(", {response}") })]
    Setup { what: String, failure: Failure, response: String },
    #[error("cannot open all connections: {0}")]
    Open(Failure),
    #[error(
        "the run needs {needed} open files, but the limit is {most}: raise it (ulimit -Hn) or use fewer connections"
    )]
    TooManyConnections { needed: u64, most: u64 },
    #[error("--queue or --project contains characters that HTTP does not allow: {0}")]
    Unsendable(#[from] hyper::http::Error),
    #[error("cannot write {path}: {source}")]
    Report { path: PathBuf, source: io::Error },
    #[error("interrupted")]
    Interrupted,
    #[error(transparent)]
    Io(#[from] io::Error),
}
