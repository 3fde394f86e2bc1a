//! Returns the space that a backlog has left in the file to the file system. The engine reuses
//! that space, but it truncates its file only if the end happens to be free.

use redb::{CompactionError, ReadableDatabase, ReadableTableMetadata, StorageError};
use tracing::{info, warn};

use crate::Error;
use crate::embedded::engine::error::OpenError;
use crate::embedded::engine::file::Opened;
use crate::embedded::engine::tables::CONTENTS;

/// Minimum size of a file, in bytes, that is compacted when it is opened.
const FILE_BYTES_MIN: u64 = 64 << 20;
/// Maximum number of entries in such a file, so that measuring the used space takes no time.
const ENTRIES_MAX: u64 = 100_000;
/// Maximum number of used bytes in such a file, so that moving them takes no time. At most half of
/// the file may be in use.
const USED_BYTES_MAX: u64 = 64 << 20;

/// Compacts a file that has just been opened, if it is nearly empty.
pub(crate) fn compact_if_nearly_empty(opened: &mut Opened, place: &str) {
    match is_nearly_empty(opened) {
        Ok(false) => {}
        Ok(true) => match compact(opened, place) {
            Ok((before, after)) => info!(before, after, "the store's file was compacted; lengths in bytes"),
            Err(error) => warn!(%error, "cannot compact the store's file"),
        },
        Err(error) => warn!(%error, "cannot determine how much of the store's file is in use"),
    }
}

fn is_nearly_empty(opened: &Opened) -> Result<bool, Error> {
    let length = opened.disk.length();
    if length < FILE_BYTES_MIN || opened.database.begin_read()?.open_table(CONTENTS)?.len()? > ENTRIES_MAX {
        return Ok(false);
    }
    let transaction = opened.database.begin_write()?;
    let stats = transaction.stats()?;
    transaction.abort()?;
    let used = stats.allocated_pages() * stats.page_size() as u64;
    Ok(used <= USED_BYTES_MAX.min(length / 2))
}

/// Moves the used pages to the beginning of the file and truncates it. Returns its length before
/// and after, in bytes.
pub(crate) fn compact(opened: &mut Opened, place: &str) -> Result<(u64, u64), OpenError> {
    let before = opened.disk.length();
    match opened.database.compact() {
        Ok(_) => Ok((before, opened.disk.length())),
        Err(CompactionError::Storage(StorageError::Io(reason))) => {
            Err(OpenError::Io { place: place.to_owned(), reason })
        }
        Err(error) => Err(OpenError::Damaged { place: place.to_owned(), reason: error.to_string() }),
    }
}
