//! The figures of this process that the operating system keeps, under the standard names of
//! Prometheus. They exist on Linux only.

use std::fs;
use std::time::{Duration, SystemTime};

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// The figures of this process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Process {
    /// Processor time used, in seconds.
    pub(super) cpu_s: f64,
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
    pub(super) open_fds: u64,
    /// Maximum number of open files; `None` if there is no limit.
    pub(super) max_fds: Option<u64>,
    /// Time at which the process started, in seconds since 1970.
    pub(super) start_s: f64,
}

impl Process {
    /// Reads the figures. Returns `None` if the system does not have them.
    pub(super) fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, in parentheses, may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        let ticks = |index: usize| Some(Duration::from_millis(number(index)? * 1_000 / clock_ticks_per_second()));
        let age = Duration::try_from(clock_gettime(ClockId::Boottime)).ok()?.saturating_sub(ticks(19)?);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(Self {
            cpu_s: (ticks(11)? + ticks(12)?).as_secs_f64(),
            virtual_bytes: number(20)?,
            resident_bytes: number(21)? * page_size() as u64,
            open_fds: open_fds()?,
            max_fds: getrlimit(Resource::Nofile).current,
            start_s: now.saturating_sub(age).as_secs_f64(),
        })
    }
}

/// Returns the number of open files. Linux 6.2 and later know it without a list.
fn open_fds() -> Option<u64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        0 => Some(fs::read_dir("/proc/self/fd").ok()?.count() as u64),
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_this_process() {
        let files = [(); 10].map(|()| tempfile::tempfile().unwrap());
        // Other tests of this process may free memory meanwhile.
        let attempts = (0..20).map(|_| {
            let before = Process::read().unwrap();
            let memory = vec![1_u8; 64 << 20];
            let after = Process::read().unwrap();
            assert!(memory.iter().all(|byte| *byte == 1));
            (before, after)
        });
        let has_grown =
            |(before, after): &(Process, Process)| after.resident_bytes >= before.resident_bytes + (48 << 20);
        let (before, after) = attempts.into_iter().find(has_grown).expect("the memory counts");

        assert_eq!(files.len(), 10);
        assert!(after.cpu_s >= before.cpu_s && after.cpu_s > 0.0);
        assert!(after.virtual_bytes >= after.resident_bytes);
        assert!(after.open_fds >= 10 && after.max_fds.is_none_or(|max| max >= after.open_fds), "{after:?}");
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(after.start_s);
        let age = SystemTime::now().duration_since(started).unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
        assert!((after.start_s - before.start_s).abs() < 0.1);
    }
}
