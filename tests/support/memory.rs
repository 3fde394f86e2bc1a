//! The memory of a process, as the kernel counts it.

/// Returns the resident memory of a process, in bytes.
pub fn resident_bytes(process: u32) -> usize {
    bytes(process, "VmRSS:")
}

/// Returns the most resident memory that a process has ever had, in bytes. The kernel adds
/// the counters of each processor late, so that a later figure can be a few pages lower.
pub fn peak_bytes(process: u32) -> usize {
    bytes(process, "VmHWM:")
}

fn bytes(process: u32, figure: &str) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix(figure)).expect("proc(5) says so");
    1024 * line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number")
}
