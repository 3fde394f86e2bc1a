//! All records of the file as they were at one time.

use std::sync::Arc;

use parking_lot::Mutex;
use redb::{AccessGuard, Range, ReadableDatabase, StorageError};

use crate::Error;
use crate::embedded::engine::file::Opened;
use crate::embedded::engine::tables::{Slice, TABLES};

/// Records that are being read; `None` if the engine was reopened in between. It cannot be reopened
/// while they exist.
pub(crate) type SharedRecords = Arc<Mutex<Option<Records>>>;

/// The records of all tables, each with the number of its table: 1 is the first one of [`TABLES`].
/// Until this is dropped, the file keeps what is deleted or replaced.
pub(crate) struct Records {
    /// The tables that are left; the next one is the last.
    tables: Vec<(u8, Range<'static, Slice, Slice>)>,
    _engine: Arc<Opened>,
}

impl Records {
    pub(crate) fn new(engine: Arc<Opened>) -> Result<Self, Error> {
        let transaction = engine.database.begin_read()?;
        let mut tables = Vec::new();
        for (number, table) in (1..).zip(TABLES) {
            tables.push((number, transaction.open_table(table)?.range::<&[u8]>(..)?));
        }
        tables.reverse();
        Ok(Self { tables, _engine: engine })
    }
}

impl Iterator for Records {
    type Item = Result<(u8, AccessGuard<'static, Slice>, AccessGuard<'static, Slice>), StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (number, records) = self.tables.last_mut()?;
            match records.next() {
                Some(record) => return Some(record.map(|(key, value)| (*number, key, value))),
                None => drop(self.tables.pop()),
            }
        }
    }
}
