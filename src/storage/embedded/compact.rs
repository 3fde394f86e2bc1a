//! Gives back to the file system what a backlog has left in the file. The engine itself uses that again, but it shortens
//! its file only where the end of it happens to be free.

use redb::{CompactionError, ReadableDatabase, ReadableTableMetadata, StorageError};
use tracing::{info, warn};

use super::engine::{OpenError, Opened};
use super::keys::CONTENTS;
use crate::storage::Error;

/// A file is compacted when it is opened if it has so many bytes or more,
const FILE_BYTES_MIN: u64 = 64 << 20;
/// if it takes no time to look how many of them are in use,
const ENTRIES_MAX: u64 = 100_000;
/// and none to move those, which are half of them at most.
const USED_BYTES_MAX: u64 = 64 << 20;

/// Compacts a file that has just been opened, if little is left in it.
pub(super) fn at_start(opened: &mut Opened, place: &str) {
    match is_nearly_empty(opened) {
        Ok(false) => {}
        Ok(true) => match compact(opened, place) {
            Ok((before, after)) => info!(before, after, "the store's file is shorter now, in bytes"),
            Err(error) => warn!(%error, "the store's file cannot be made shorter"),
        },
        Err(error) => warn!(%error, "nobody knows how much of the store's file is in use"),
    }
}

fn is_nearly_empty(opened: &Opened) -> Result<bool, Error> {
    let length = opened.disk.length();
    if length < FILE_BYTES_MIN || opened.database.begin_read()?.open_table(CONTENTS)?.len()? > ENTRIES_MAX {
        return Ok(false);
    }
    let looking = opened.database.begin_write()?;
    let stats = looking.stats()?;
    looking.abort()?;
    let used = stats.allocated_pages() * stats.page_size() as u64;
    Ok(used <= USED_BYTES_MAX.min(length / 2))
}

/// Moves what is in the file to its beginning; how long it was and is.
pub(super) fn compact(opened: &mut Opened, place: &str) -> Result<(u64, u64), OpenError> {
    let before = opened.disk.length();
    match opened.database.compact() {
        Ok(_) => Ok((before, opened.disk.length())),
        Err(CompactionError::Storage(StorageError::Io(reason))) => {
            Err(OpenError::Io { place: place.to_owned(), reason })
        }
        Err(error) => Err(OpenError::Damaged { place: place.to_owned(), reason: error.to_string() }),
    }
}
