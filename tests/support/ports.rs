//! Free TCP ports.
//!
//! Port 0 does not work here. The kernel would choose among the ports that it also assigns to
//! outgoing connections. A client that retries a stopped server could get the server's own port,
//! and so block its restart.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port to try. It is below the first port for outgoing connections of Linux (32768) and
/// of other systems (49152).
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

const STARTS_MAX: usize = 5;

/// Listens on a free port of 127.0.0.1.
pub fn listen() -> TcpListener {
    // A process uses each port once, and processes start far from each other.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(1009)));

    (0..COUNT)
        .find_map(|_| {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(COUNT);
            let port = FIRST + u16::try_from(offset).expect("the offset is below a u16");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
        })
        .expect("some port between 20000 and 32000 is free")
}

/// Returns a port that was free a moment ago. Another process may take it first, so callers must be
/// ready to try again.
pub fn free_port() -> u16 {
    let address = listen().local_addr().expect("a bound socket has an address");
    address.port()
}

/// Retries a start that failed, because the port may have been taken after it was found free.
#[allow(clippy::panic, reason = "fails the test, in the program's words")]
pub fn first_that_starts<T>(mut start: impl FnMut() -> Result<T, String>) -> T {
    let mut attempt = start();
    for _ in 1..STARTS_MAX {
        attempt = attempt.or_else(|_| start());
    }
    attempt.unwrap_or_else(|said| panic!("not started in {STARTS_MAX} attempts: {said}"))
}
