//! Resources of this process: its limit on open files, and the processor time that it has used.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::error::Error;

/// Open files besides the connections: those of the terminal, the runtimes and libraries.
const OTHER_FILES: u64 = 100;

/// Raises the limit on open files if the given number of connections needs more.
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

/// Processor time of all threads since the process started.
pub(super) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}
