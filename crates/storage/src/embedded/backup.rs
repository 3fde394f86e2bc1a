//! Backups of a store, which are taken while it is in use, and their restoration.
//!
//! A backup starts with a line of text. Each record follows as the number of its table, the lengths
//! of its key and value (4 bytes each, big-endian), the key and the value. The end is the number 0
//! and the SHA-256 of all bytes before it.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use redb::TableDefinition;
use sha2::{Digest, Sha256};
use thiserror::Error as ThisError;

use crate::Error;
use crate::embedded::engine::error::OpenError;
use crate::embedded::engine::file::{FILE, Verification, create_new, make_folder, open, open_file};
use crate::embedded::engine::inline;
use crate::embedded::engine::records::SharedRecords;
use crate::embedded::engine::tables::{FORMAT_BEFORE, Slice, TABLES};

const TITLE: &[u8; 16] = b"sukkal backup 1\n";
/// The number of the end. The tables have the numbers from 1 on, in the order of [`TABLES`].
const END: u8 = 0;

/// Size in bytes at which a part of a backup is complete. The last record of a part may exceed it.
const PART_BYTES: usize = 64 << 10;
/// Number of bytes that are restored in one transaction.
const TRANSACTION_BYTES: usize = 16 << 20;
/// The name of the file while it is restored.
const UNFINISHED: &str = "sukkal.redb.unfinished";

/// The parts of a backup of a store as it was when this was created. Until this is dropped, the
/// file keeps what is deleted or replaced, so it can grow.
pub(super) struct BackupParts {
    records: SharedRecords,
    /// What begins the next part.
    start: &'static [u8],
    hash: Sha256,
    has_ended: bool,
}

impl BackupParts {
    pub(super) fn new(records: SharedRecords) -> Self {
        Self { records, start: TITLE, hash: Sha256::new(), has_ended: false }
    }

    fn read(&mut self) -> Result<Vec<u8>, Error> {
        let mut part = Vec::with_capacity(PART_BYTES);
        part.extend_from_slice(std::mem::take(&mut self.start));
        let mut records = self.records.lock();
        let records = records.as_mut().ok_or_else(|| Error::Unavailable("the disk has failed".to_owned()))?;
        while part.len() < PART_BYTES && !self.has_ended {
            if let Some(record) = records.next() {
                let (table, key, value) = record?;
                append(&mut part, table, key.value(), value.value())?;
            } else {
                part.push(END);
                self.has_ended = true;
            }
        }
        self.hash.update(&part);
        if self.has_ended {
            part.extend_from_slice(&self.hash.finalize_reset());
        }
        Ok(part)
    }
}

impl Iterator for BackupParts {
    type Item = Result<Vec<u8>, Error>;

    /// Reads the next part on this thread.
    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let part = inline::read(|| catch_unwind(AssertUnwindSafe(|| self.read())))
            .unwrap_or_else(|_| Err(Error::Corrupt("the database engine panicked".to_owned())));
        self.has_ended |= part.is_err();
        Some(part)
    }
}

fn append(part: &mut Vec<u8>, table: u8, key: &[u8], value: &[u8]) -> Result<(), Error> {
    part.push(table);
    for bytes in [key, value] {
        let length = u32::try_from(bytes.len()).map_err(|error| Error::Corrupt(error.to_string()))?;
        part.extend_from_slice(&length.to_be_bytes());
    }
    part.extend_from_slice(key);
    part.extend_from_slice(value);
    Ok(())
}

/// Why a backup cannot be restored.
#[derive(Debug, ThisError)]
pub enum RestoreError {
    /// The directory has a store.
    #[error("there is a store in {0}; restore into an empty directory")]
    Exists(String),
    /// Another command restores to the directory, or an earlier one was interrupted.
    #[error("{0} exists; delete it unless another command is restoring to this directory")]
    Unfinished(String),
    /// The file is something else.
    #[error("this is no backup of Sukkal, or a later release made it")]
    NoBackup,
    /// The file is shorter than the backup was, or was changed.
    #[error("the backup is incomplete or damaged")]
    Damaged,
    /// The backup cannot be read.
    #[error("the backup cannot be read: {0}")]
    Read(#[from] io::Error),
    /// The store cannot be created.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store cannot be written.
    #[error(transparent)]
    Store(#[from] Error),
}

/// Creates a store from a backup, in a directory that has none. Returns the number of records.
pub(super) fn restore(backup: impl Read, folder: &Path) -> Result<u64, RestoreError> {
    let (file, unfinished) = (folder.join(FILE), folder.join(UNFINISHED));
    let failed = |reason| OpenError::Io { place: folder.display().to_string(), reason };
    let exists = || RestoreError::Exists(folder.display().to_string());
    if file.try_exists().map_err(failed)? {
        return Err(exists());
    }
    make_folder(folder).map_err(failed)?;
    // Fails while another command restores to the directory.
    create_new(&unfinished).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => RestoreError::Unfinished(unfinished.display().to_string()),
        _ => failed(error).into(),
    })?;
    let restored = Records::new(backup).and_then(|records| restore_to(records, &unfinished)).and_then(|count| {
        // In contrast to renaming, this does not replace a store that was created meanwhile.
        fs::hard_link(&unfinished, &file).map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(),
            _ => failed(error).into(),
        })?;
        Ok(count)
    });
    fs::remove_file(&unfinished).and_then(|()| File::open(folder)?.sync_all()).map_err(failed)?;
    restored
}

fn restore_to(mut records: Records<impl Read>, file: &Path) -> Result<u64, RestoreError> {
    let (place, path) = (file.display().to_string(), file.to_owned());
    let source = move || open_file(&path);
    let open = || open(&place, &source, Verification::UnlessClosedCleanly);
    let opened = open()?;
    let (mut count, mut is_open) = (0, true);
    while is_open {
        let transaction = opened.database.begin_write().map_err(Error::from)?;
        let mut bytes = 0;
        while bytes < TRANSACTION_BYTES && is_open {
            match records.next()? {
                Some((table, key, value)) => {
                    let mut table = transaction.open_table(table).map_err(Error::from)?;
                    table.insert(&*key, &*value).map_err(Error::from)?;
                    bytes += key.len() + value.len();
                    count += 1;
                }
                None => is_open = false,
            }
        }
        transaction.commit().map_err(Error::from)?;
        opened.disk.write_back()?;
    }
    drop(opened);
    // Another release may have made the backup. A file of the release before is upgraded when the
    // store is opened.
    match open() {
        Err(OpenError::Format { found, .. }) if found == FORMAT_BEFORE.to_string() => Ok(count),
        opened => Ok(opened.map(|_| count)?),
    }
}

/// The records of a backup.
struct Records<R> {
    source: BufReader<R>,
    hash: Sha256,
}

type Record = (TableDefinition<'static, Slice, Slice>, Vec<u8>, Vec<u8>);

impl<R: Read> Records<R> {
    fn new(source: R) -> Result<Self, RestoreError> {
        let mut records = Self { source: BufReader::with_capacity(PART_BYTES, source), hash: Sha256::new() };
        let title = records.bytes(TITLE.len()).map_err(|error| match error {
            RestoreError::Damaged => RestoreError::NoBackup,
            error => error,
        })?;
        if title == TITLE { Ok(records) } else { Err(RestoreError::NoBackup) }
    }

    /// Returns the next record; `None` if the backup is complete.
    fn next(&mut self) -> Result<Option<Record>, RestoreError> {
        let number = usize::from(self.bytes(1)?[0]);
        let Some(index) = number.checked_sub(1) else {
            let expected = self.hash.finalize_reset();
            let is_intact = *self.bytes(expected.len())? == *expected && self.source.read(&mut [0])? == 0;
            return if is_intact { Ok(None) } else { Err(RestoreError::Damaged) };
        };
        let table = *TABLES.get(index).ok_or(RestoreError::Damaged)?;
        let (key_bytes, value_bytes) = (self.length()?, self.length()?);
        Ok(Some((table, self.bytes(key_bytes)?, self.bytes(value_bytes)?)))
    }

    fn length(&mut self) -> Result<usize, RestoreError> {
        let bytes = self.bytes(size_of::<u32>())?;
        let length = bytes.try_into().map(u32::from_be_bytes).map_err(|_| RestoreError::Damaged)?;
        usize::try_from(length).map_err(|_| RestoreError::Damaged)
    }

    /// Reads so many bytes. A wrong length takes no more memory than there are bytes.
    fn bytes(&mut self, count: usize) -> Result<Vec<u8>, RestoreError> {
        let mut bytes = Vec::new();
        self.source.by_ref().take(count as u64).read_to_end(&mut bytes)?;
        if bytes.len() < count {
            return Err(RestoreError::Damaged);
        }
        self.hash.update(&bytes);
        Ok(bytes)
    }
}
