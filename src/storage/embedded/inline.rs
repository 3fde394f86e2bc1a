//! Reading on the thread that works on requests, which is cheaper than handing each look over to another thread: most of
//! what is read is in memory. What is not is read in a way that lets others go on.

use std::cell::Cell;
use std::fs::File;
use std::io;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

thread_local! {
    /// Whether this thread works on requests, and reads for one now.
    static READS_FOR_A_REQUEST: Cell<bool> = const { Cell::new(false) };
}

/// Reads on this thread, in a short time but for the disk.
pub(super) fn read<T>(look: impl FnOnce() -> T) -> T {
    let has_other_threads =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    READS_FOR_A_REQUEST.set(has_other_threads);
    let seen = look();
    READS_FOR_A_REQUEST.set(false);
    seen
}

/// Reads from a file; if that takes the disk, other requests go on on another thread meanwhile.
pub(super) fn read_file(
    file: &File,
    offset: u64,
    out: &mut [u8],
    wait: impl FnOnce(&mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    if !READS_FOR_A_REQUEST.get() {
        return wait(out);
    }
    if is_at_hand(file, offset, out) { Ok(()) } else { block_in_place(|| wait(out)) }
}

/// Reads what is in memory; whether all of it is.
#[cfg(target_os = "linux")]
fn is_at_hand(file: &File, offset: u64, out: &mut [u8]) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};

    let length = out.len();
    preadv2(file, &mut [io::IoSliceMut::new(out)], offset, ReadWriteFlags::NOWAIT) == Ok(length)
}

#[cfg(not(target_os = "linux"))]
fn is_at_hand(_file: &File, _offset: u64, _out: &mut [u8]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_disk_that_takes_its_time_keeps_nobody_else_waiting() {
        // Nothing of an empty file is at hand.
        let file = tempfile::tempfile().unwrap();
        let (tell, told) = channel();

        let reader = tokio::spawn(async move {
            let other = tokio::spawn(async move { tell.send(()).unwrap() });
            let read = read(|| read_file(&file, 0, &mut [0; 9], |_| told.recv().map_err(io::Error::other)));
            other.await.unwrap();
            read
        });

        reader.await.unwrap().unwrap();
    }
}
