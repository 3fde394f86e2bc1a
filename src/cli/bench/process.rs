//! What the operating system says of this process: files it may open, processor time it has used.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::Error;

/// Files besides connections: the terminal, the runtimes' own, libraries.
const OTHER_FILES: u64 = 100;

/// Sees to it that so many connections can be open.
pub(super) fn allow_connections(connections: usize) -> Result<(), Error> {
    let needed = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        return Err(Error::TooManyConnections { needed, most });
    }
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit }).map_err(std::io::Error::from)?)
}

/// Processor time of all threads since the process began.
pub(super) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
