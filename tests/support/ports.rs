//! TCP ports that nobody listens on.
//!
//! Not port 0: the kernel chooses among the ports it also gives to outgoing connections. A client
//! that retries a stopped server could be given the server's own port, and block its restart.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below Linux's (32768) and everybody else's (49152) first port for outgoing connections.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

const STARTS_MAX: usize = 5;

/// Listens on a free port of 127.0.0.1.
pub(crate) fn listen() -> TcpListener {
    // Each port comes once in a process, and processes begin far from each other.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| AtomicU32::new(std::process::id().wrapping_mul(1009)));

    (0..COUNT)
        .find_map(|_| {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(COUNT);
            let port = FIRST + u16::try_from(offset).expect("the offset is below a u16");
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
        })
        .expect("some port between 20000 and 32000 is free")
}

/// A port that was free a moment ago; another process may be faster, so be ready to try again.
pub(crate) fn free_port() -> u16 {
    let address = listen().local_addr().expect("a bound socket has an address");
    address.port()
}

/// Tries again what did not start, since its port may have been taken after it was found free.
#[allow(clippy::panic, reason = "fails the test, in the program's words")]
pub(crate) fn first_that_starts<T>(mut start: impl FnMut() -> Result<T, String>) -> T {
    let mut attempt = start();
    for _ in 1..STARTS_MAX {
        attempt = attempt.or_else(|_| start());
    }
    attempt.unwrap_or_else(|said| panic!("not started in {STARTS_MAX} attempts: {said}"))
}
