//! The limit on open files (`RLIMIT_NOFILE`), which bounds the connections of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Number of descriptors that are reserved for the listeners, the store's file and connections to
/// the store.
const RESERVE: u64 = 256;

/// Raises the limit as far as possible, and returns the number of client connections that fit: at
/// most `wanted`.
pub fn connections_max(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            warn!(%error, "cannot raise the limit on open files");
            current
        }
    };
    // The number of open files is not limited.
    let Some(limit) = limit else {
        return wanted;
    };
    let fitting = usize::try_from(limit - RESERVE.min(limit / 2)).unwrap_or(usize::MAX);
    if fitting < wanted {
        warn!(
            "max_connections is {wanted}, but the limit on open files ({limit}) allows {fitting}; raise it with `ulimit -n` or \
             LimitNOFILE"
        );
    }
    fitting.min(wanted)
}
