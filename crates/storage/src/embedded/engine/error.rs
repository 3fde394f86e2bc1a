//! Errors on opening a store, and the conversion of the engine's errors to those of a store.

use std::io;

use rustix::process::{getegid, geteuid};
use thiserror::Error as ThisError;

use crate::Error;
use crate::embedded::engine::tables::FORMAT_VERSION;

/// Why a store cannot be opened. Each message is one line.
#[derive(Debug, ThisError)]
pub enum OpenError {
    /// Another process has opened it.
    #[error("{0} is in use by another process; only one process can open an embedded store at a time")]
    InUse(String),
    /// Another version of Sukkal wrote it.
    #[error(
        "{place} has format {found}, but this version of Sukkal reads format {FORMAT_VERSION}; use the version that wrote it"
    )]
    Format {
        /// The file.
        place: String,
        /// The format of the file.
        found: String,
    },
    /// It is damaged, or it is not a store.
    #[error("{place} is damaged or is not a Sukkal store: {reason}")]
    Damaged {
        /// The file.
        place: String,
        /// What is wrong with the file.
        reason: String,
    },
    /// The operating system refused an operation.
    #[error("{place}: {reason}{}", advice(reason))]
    Io {
        /// The file or folder.
        place: String,
        /// The reason that the operating system gave.
        reason: io::Error,
    },
}

/// Returns what to do about an error of the operating system. The owner of a volume is often
/// another user than that of a container.
fn advice(reason: &io::Error) -> String {
    if reason.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    format!(
        "; Sukkal runs as user {user} and group {group}: run it as the owner, or `chown -R {user}:{group}` the folder"
    )
}

/// Converts an error of the engine. A failure of the disk makes the store unavailable; every other
/// error is damage or a bug.
pub(crate) fn failure(error: impl Into<redb::Error>) -> Error {
    use redb::Error as Engine;

    match error.into() {
        error @ (Engine::Io(_) | Engine::PreviousIo | Engine::DatabaseClosed) => Error::Unavailable(error.to_string()),
        error => Error::Corrupt(error.to_string()),
    }
}

macro_rules! from_engine {
    ($($kind:ident),+) => {
        $(impl From<redb::$kind> for Error {
            fn from(error: redb::$kind) -> Self {
                failure(error)
            }
        })+
    };
}

from_engine!(StorageError, TableError, TransactionError, CommitError);

/// Returns the error for a record that this version cannot decode.
pub(crate) fn damaged(what: &str) -> Error {
    Error::Corrupt(format!("cannot decode {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_a_permission_says_who_must_have_it() {
        let error = |kind: io::ErrorKind| OpenError::Io { place: "/data".to_owned(), reason: kind.into() }.to_string();

        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        assert_eq!(
            error(io::ErrorKind::PermissionDenied),
            format!(
                "/data: permission denied; Sukkal runs as user {user} and group {group}: run it as the owner, or \
                 `chown -R {user}:{group}` the folder"
            )
        );
        assert_eq!(error(io::ErrorKind::NotFound), "/data: entity not found");
    }
}
