//! The limit on open files (`RLIMIT_NOFILE`), which bounds the connections of a process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Number of descriptors that connections of clients leave to the connections to the store, its file and listeners.
const RESERVE: u64 = 256;

/// Raises the limit as far as the process may, and returns how many connections of clients fit: at most `wanted`.
pub fn connections_max(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let limit = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            warn!(%error, "cannot raise the limit on open files");
            current
        }
    };
    // No limit is as good as a high one.
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
