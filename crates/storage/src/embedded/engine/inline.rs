//! Reads on the thread that serves the request. This is cheaper than a switch to another thread,
//! because most pages are in memory. A read that must wait for the disk lets other tasks continue.

use std::cell::Cell;
use std::fs::File;
use std::io;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

thread_local! {
    /// Whether this thread is reading for a request, and the runtime has other threads.
    static IS_REQUEST_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs a query on this thread. The query must be short, apart from disk access.
pub(crate) fn read<T>(query: impl FnOnce() -> T) -> T {
    let has_other_threads =
        Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
    IS_REQUEST_THREAD.set(has_other_threads);
    let result = query();
    IS_REQUEST_THREAD.set(false);
    result
}

/// Reads from a file. If the data is not in memory, other tasks move to another thread meanwhile.
pub(crate) fn read_file(
    file: &File,
    offset: u64,
    out: &mut [u8],
    wait: impl FnOnce(&mut [u8]) -> io::Result<()>,
) -> io::Result<()> {
    if !IS_REQUEST_THREAD.get() {
        return wait(out);
    }
    if read_from_page_cache(file, offset, out) { Ok(()) } else { block_in_place(|| wait(out)) }
}

/// Reads without waiting for the disk. Returns whether all of the data was in memory.
#[cfg(target_os = "linux")]
fn read_from_page_cache(file: &File, offset: u64, out: &mut [u8]) -> bool {
    use rustix::io::{ReadWriteFlags, preadv2};

    let length = out.len();
    preadv2(file, &mut [io::IoSliceMut::new(out)], offset, ReadWriteFlags::NOWAIT) == Ok(length)
}

#[cfg(not(target_os = "linux"))]
fn read_from_page_cache(_file: &File, _offset: u64, _out: &mut [u8]) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_slow_read_does_not_block_other_tasks() {
        // No read from an empty file is complete, so each one takes the slow path.
        let file = tempfile::tempfile().unwrap();
        let (sender, receiver) = channel();

        let reader = tokio::spawn(async move {
            let other = tokio::spawn(async move { sender.send(()).unwrap() });
            let read = read(|| read_file(&file, 0, &mut [0; 9], |_| receiver.recv().map_err(io::Error::other)));
            other.await.unwrap();
            read
        });

        reader.await.unwrap().unwrap();
    }
}
