//! Classifies failed attempts: whether another attempt may help, whether it is allowed, and which
//! error the caller gets.

use fred::error::{Error as FredError, ErrorKind};

use crate::Error;

/// Returns whether a command with this failure has certainly not run: Redis refused it, or it was
/// never sent.
///
/// When a server replies `CLUSTERDOWN` to one command, `fred` gives up the connection and fails all
/// commands on it with the same error, including commands that the server runs.
pub(super) fn has_not_run(failure: &FredError) -> bool {
    let was_refused = is_redis_reply(failure) && !failure.details().starts_with("CLUSTERDOWN");
    was_refused || *failure.kind() == ErrorKind::Routing
}

/// A failure before anything is sent: no server is known to have the slot.
pub(super) fn no_server_known() -> FredError {
    FredError::new(ErrorKind::Routing, "no server of the cluster is known to have this slot")
}

/// A failure before anything is sent: there is no connection to the server.
pub(super) fn not_connected() -> FredError {
    FredError::new(ErrorKind::Routing, "there is no connection")
}

/// Returns whether another attempt would get the same reply from Redis.
pub(super) fn is_permanent(error: &FredError) -> bool {
    let transient = ["LOADING", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN", "BUSY ", "MOVED", "ASK "];
    match error.kind() {
        ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => true,
        _ => is_redis_reply(error) && !transient.iter().any(|word| error.details().starts_with(word)),
    }
}

/// Returns whether the server is a replica, which cannot write.
pub(super) fn is_read_only(error: &FredError) -> bool {
    error.details().starts_with("READONLY ")
}

/// Returns whether the error is a reply of Redis. Those begin with a word in capitals. `fred` has
/// errors of its own of the same kinds, for instance that it has no connection right now.
pub(super) fn is_redis_reply(error: &FredError) -> bool {
    let word = error.details().split(' ').next().unwrap_or_default();
    word.len() >= 2 && word.bytes().all(|byte| byte.is_ascii_uppercase())
}

pub(super) fn error_from_failure(what: &str, error: &FredError) -> Error {
    match error.kind() {
        ErrorKind::Auth => Error::Unavailable(format!("{what}: {}", error.details())),
        _ => error_from_reply(what, error.details()),
    }
}

/// Returns the error for an error reply of Redis. If Redis refuses to write at the moment, its
/// operator can help; any other reply is a defect of this program.
pub(in crate::redis) fn error_from_reply(what: &str, said: &str) -> Error {
    let transient = ["READONLY", "MISCONF", "NOREPLICAS", "NOAUTH", "NOPERM", "WRONGPASS"];
    // Redis includes the message of the operating system.
    let no_room = ["No space left on device", "Disk quota exceeded", "File too large"];
    if said.starts_with("NOQUEUE") {
        Error::NoQueue
    } else if said.contains("MISCONF") && no_room.iter().any(|words| said.contains(words)) {
        Error::DiskFull(format!("{what}: {said}"))
    } else if said.contains("OOM ") {
        Error::MemoryFull(format!("{what}: {said}"))
    } else if transient.iter().any(|word| said.contains(word)) {
        Error::Unavailable(format!("{what}: {said}"))
    } else {
        Error::Corrupt(format!("{what}: {said}"))
    }
}
