//! Records that are rarely used, such as tokens, and the narrow interface that every store offers
//! for them. All logic about them is above it, once for all stores: see `tokens.rs`.
//!
//! A table is an ordered map from keys to values. Reads and writes are one step each, so a caller
//! first reads, then writes under the condition that the rows on which it relies are unchanged.

use async_trait::async_trait;
use bytes::Bytes;

use super::error::Error;
use sukkal_domain::ProjectId;

/// Maximum number of rows that one step removes because they have ended.
pub(super) const ENDED_PER_STEP: usize = 500;

/// Rows in the order of their keys.
#[derive(Debug)]
pub struct Table {
    /// Hash tag of its keys in Redis: see `redis/records.rs`.
    pub tag: &'static str,
    /// First bytes in the registry of the embedded store: of the rows, of the indexes by project
    /// and by end, and of the numbers of rows.
    pub prefixes: [u8; 4],
    /// The indexes of the table; `None` if rows are only read by their keys, or all of them.
    pub indexes: Option<Indexes>,
}

/// The indexes of a table: by key, by project and by end.
#[derive(Debug)]
pub struct Indexes {
    /// Returns what the indexes have of a row with this value.
    pub of: fn(&[u8]) -> Result<Indexed, Error>,
    /// Returns how findings of a check name the row with this key and this value. Fails if it
    /// cannot be read.
    pub check: fn(&[u8], &[u8]) -> Result<String, Error>,
}

/// What indexes have of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexed {
    /// The project of the row, which never changes.
    pub project: Option<ProjectId>,
    /// Time after which the row does not exist (µs); 0 if it does not end.
    pub end_us: u64,
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key.
    pub key: Bytes,
    /// The value.
    pub value: Bytes,
}

/// A query for rows. Those that have ended are found until they are deleted.
#[derive(Clone, Debug)]
pub enum Read {
    /// The row with this key, if it exists.
    Row(Bytes),
    /// The next rows after a key, in the order of their keys.
    Page {
        /// The project of the rows; `None` for all rows.
        project: Option<ProjectId>,
        /// The key after which the page starts.
        after: Option<Bytes>,
        /// Maximum number of rows.
        limit: usize,
    },
    /// The first rows that have ended, some hundreds at most.
    Ended,
}

/// Something that must hold for a write. A row that has ended counts until it is deleted.
#[derive(Clone, Debug)]
pub enum Condition {
    /// The value of a row begins with some bytes.
    Row {
        /// The key of the row.
        key: Bytes,
        /// The bytes; `None` if there must be no such row.
        begins: Option<Bytes>,
    },
    /// There are fewer than `max` rows.
    Fewer {
        /// The project of the rows; `None` for all rows.
        project: Option<ProjectId>,
        /// The number of rows that there may not be.
        max: u32,
    },
}

/// Changes that are made in one step if all conditions hold.
#[derive(Clone, Debug, Default)]
pub struct Write {
    /// The conditions, which are checked in this order.
    pub conditions: Vec<Condition>,
    /// The rows to delete, as they were read. Those that do not exist are left out.
    pub deletes: Vec<Row>,
    /// The rows to store afterwards. If the indexes have something else of a row than before, it
    /// must also be deleted.
    pub puts: Vec<Row>,
}

/// The outcome of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// All changes were made, by this attempt or an earlier one.
    Done,
    /// Nothing was changed: the condition at this position is the first that does not hold.
    Refused(usize),
}

/// Reads and writes rows of tables.
#[async_trait]
pub trait Records: Send + Sync {
    /// Runs queries in one step. Returns the time of the step (µs), and the rows that each query
    /// finds.
    async fn read_rows(&self, table: &'static Table, reads: Vec<Read>) -> Result<(u64, Vec<Vec<Row>>), Error>;

    /// Returns all rows, in any order. This may take several steps: a row that another call changes
    /// meanwhile is found as it was before or afterwards.
    async fn all_rows(&self, table: &'static Table) -> Result<Vec<Row>, Error> {
        let all = Read::Page { project: None, after: None, limit: usize::MAX };
        Ok(self.read_rows(table, vec![all]).await?.1.concat())
    }

    /// Makes all changes in one step if all conditions hold. If the reply is lost, the call may be
    /// repeated: a condition on a row that already has the value which the write gives it counts as
    /// [`Written::Done`]. So such a value must be unique. A write that only deletes works even if
    /// the store is full.
    async fn write_rows(&self, table: &'static Table, write: Write) -> Result<Written, Error>;
}

/// Runs a query after all rows that have ended have been removed, in steps.
pub(super) async fn read_live(
    store: &(impl Records + ?Sized),
    table: &'static Table,
    read: Read,
) -> Result<(u64, Vec<Row>), Error> {
    loop {
        let (now_us, mut found) = store.read_rows(table, vec![Read::Ended, read.clone()]).await?;
        let (rows, ended) = (found.pop().unwrap_or_default(), found.pop().unwrap_or_default());
        if ended.is_empty() {
            return Ok((now_us, rows));
        }
        // Another process may have removed them, or changed when they end. Then the next step sees
        // it.
        let unchanged = |row: &Row| Condition::Row { key: row.key.clone(), begins: Some(row.value.clone()) };
        let conditions = ended.iter().map(unchanged).collect();
        store.write_rows(table, Write { conditions, deletes: ended, puts: Vec::new() }).await?;
    }
}

impl Write {
    /// Returns the outcome if the condition at this position does not hold. `present` is the value
    /// of its row.
    pub(super) fn refused(&self, at: usize, present: Option<&[u8]>) -> Written {
        let Condition::Row { key, .. } = &self.conditions[at] else { return Written::Refused(at) };
        let is_made = self.puts.iter().any(|row| row.key == key && present == Some(&*row.value));
        if is_made { Written::Done } else { Written::Refused(at) }
    }
}
