//! What the engine complains of, as a store's failure.

use crate::storage::Error;

/// A failure of the engine: what the disk did is its operator's business, anything else is damage or our bug.
pub(super) fn failure(error: impl Into<redb::Error>) -> Error {
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

/// A record that this version cannot read.
pub(super) fn damaged(what: &str) -> Error {
    Error::Corrupt(format!("{what} cannot be read"))
}
