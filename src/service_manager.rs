//! Tells the service manager when the service is ready and when it stops, by the protocol of
//! systemd (`sd_notify(3)`): a datagram to the socket that `NOTIFY_SOCKET` names.

use std::env;
use std::ffi::OsStr;
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use tracing::warn;

const SOCKET: &str = "NOTIFY_SOCKET";

/// The service accepts requests.
pub const READY: &str = "READY=1";
/// The service has begun to stop.
pub const STOPPING: &str = "STOPPING=1";

/// Sends a state to the service manager. Does nothing if the process has none.
pub fn notify(state: &str) {
    let Some(socket) = env::var_os(SOCKET) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        warn!(%error, ?socket, "cannot notify the service manager of {state}");
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A service manager that does not read must not block the service.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address(socket)?).map(drop)
}

/// Returns the address of a socket: a path, or on Linux an abstract name after `@`.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_bytes().strip_prefix(b"@") {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}
