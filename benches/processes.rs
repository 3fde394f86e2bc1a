//! Processor time and memory of processes with all their children, from `/proc`.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Processor time of the threads of these processes and of all their descendants, in seconds, with
/// a resolution of one nanosecond.
pub(crate) fn cpu_s(roots: &[u32]) -> f64 {
    let of_process = |process: u32| -> f64 {
        let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
            return 0.0;
        };
        threads.flatten().map(|thread| cpu_of_thread_s(&thread.path())).sum()
    };
    with_children(roots).into_iter().map(of_process).sum()
}

/// Waits until the processes are nearly idle. Some continue with requests whose clients have
/// disconnected.
pub(crate) fn wait_until_idle(roots: &[u32]) {
    const LOOK: Duration = Duration::from_millis(200);
    const LOOKS_MAX: usize = 150;
    const IDLE: f64 = 0.1;
    for _ in 0..LOOKS_MAX {
        let before_s = cpu_s(roots);
        sleep(LOOK);
        if cpu_s(roots) - before_s < IDLE * LOOK.as_secs_f64() {
            return;
        }
    }
}

/// Resident memory of the processes, in bytes. Memory that several of them share is counted for
/// each.
pub(crate) fn resident_bytes(roots: &[u32]) -> f64 {
    let of_process = |process: u32| -> Option<f64> {
        let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
        Some(kibibytes * 1024.0)
    };
    with_children(roots).into_iter().filter_map(of_process).sum()
}

/// Processor time of the ended children of this process, in seconds, with a resolution of 10 ms.
pub(crate) fn cpu_of_ended_children_s() -> f64 {
    const TICKS_PER_S: f64 = 100.0;
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<_> = fields_after_name(&stat).collect();
    // See proc(5): the user and system time of the children are fields 16 and 17.
    let ticks: f64 = fields[13].parse::<f64>().unwrap() + fields[14].parse::<f64>().unwrap();
    ticks / TICKS_PER_S
}

fn cpu_of_thread_s(thread: &Path) -> f64 {
    let Ok(stat) = fs::read_to_string(thread.join("schedstat")) else {
        return 0.0;
    };
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn with_children(roots: &[u32]) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        let stat = fs::read_to_string(entry.path().join("stat"));
        if let (Some(process), Ok(stat)) = (process, stat) {
            let parent = fields_after_name(&stat).nth(1).and_then(|parent| parent.parse().ok());
            children.entry(parent.unwrap_or_default()).or_default().push(process);
        }
    }
    let mut all = roots.to_vec();
    let mut seen = 0;
    while seen < all.len() {
        all.extend(children.remove(&all[seen]).unwrap_or_default());
        seen += 1;
    }
    all
}

/// The fields of a `stat` file from the third on. The second field, the name, may contain any
/// character.
fn fields_after_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit(')').next().unwrap_or_default().split_whitespace()
}
