//! What a failed attempt means: whether another one may help, whether it may be made, and what the caller is told.

use fred::error::{Error as FredError, ErrorKind};

use crate::storage::Error;

/// Whether a command that failed so has certainly not been run: Redis said no, or it was never sent.
///
/// When a server says `CLUSTERDOWN` to one command, `fred` gives up the connection and tells the same to all commands on it,
/// also to those that the server runs.
pub(super) fn has_not_run(failure: &FredError) -> bool {
    let was_refused = is_said_by_redis(failure) && !failure.details().starts_with("CLUSTERDOWN");
    was_refused || *failure.kind() == ErrorKind::Routing
}

/// A failure before anything is sent: no server is known to have the slot.
pub(super) fn no_server() -> FredError {
    FredError::new(ErrorKind::Routing, "no server of the cluster is known to have this slot")
}

/// A failure before anything is sent: there is no connection to the server.
pub(super) fn not_connected() -> FredError {
    FredError::new(ErrorKind::Routing, "there is no connection")
}

/// Whether Redis has answered so that another attempt would be told the same.
pub(super) fn is_final(error: &FredError) -> bool {
    let passing = ["LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY ", "MOVED", "ASK "];
    match error.kind() {
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => true,
        _ => is_said_by_redis(error) && !passing.iter().any(|word| error.details().starts_with(word)),
    }
}

/// Redis begins its errors with a word in capitals. `fred` has complaints of its own, of the same
/// kinds: that it has no connection right now, for instance.
pub(super) fn is_said_by_redis(error: &FredError) -> bool {
    let word = error.details().split(' ').next().unwrap_or_default();
    word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

pub(super) fn refusal(what: &str, error: &FredError) -> Error {
    match error.kind() {
        ErrorKind::Auth => Error::Unavailable(format!("{what}: {}", error.details())),
        _ => refused(what, error.details()),
    }
}

/// What Redis says when it will not write now is its operator's business; anything else is our bug.
pub(super) fn refused(what: &str, said: &str) -> Error {
    let passing = ["READONLY", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM", "WRONGPASS"];
    // Redis adds what the operating system said.
    let no_room = ["No space left on device", "Disk quota exceeded", "File too large"];
    if said.contains("MISCONF") && no_room.iter().any(|words| said.contains(words)) {
        Error::DiskFull(format!("{what}: {said}"))
    } else if said.contains("OOM ") {
        Error::MemoryFull(format!("{what}: {said}"))
    } else if passing.iter().any(|word| said.contains(word)) {
        Error::Unavailable(format!("{what}: {said}"))
    } else {
        Error::Corrupt(format!("{what}: {said}"))
    }
}
