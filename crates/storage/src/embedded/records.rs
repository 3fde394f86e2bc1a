//! Tables of records in the embedded store. Their rows, and those of their indexes, are in the
//! registry.

use std::ops::Bound;

use async_trait::async_trait;
use bytes::{Buf, Bytes};

use crate::embedded::engine::clock;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables;
use crate::embedded::rows::keys;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::write::WriteTransaction;
use crate::embedded::transaction::writer::Step;
use crate::records::{Condition, ENDED_PER_STEP, Indexed, Read, Records, Row, Table, Write, Written};
use crate::{Error, PoolStore};
use sukkal_domain::ProjectId;

/// A range of keys in the registry.
type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

#[async_trait]
impl Records for EmbeddedStore {
    async fn read_rows(&self, table: &'static Table, reads: Vec<Read>) -> Result<(u64, Vec<Vec<Row>>), Error> {
        self.read(move |view| {
            let now_us = clock::now_us();
            let found = reads.iter().map(|read| view.rows(table, read, now_us));
            Ok((now_us, found.collect::<Result<_, _>>()?))
        })
        .await
    }

    async fn write_rows(&self, table: &'static Table, write: Write) -> Result<Written, Error> {
        let bytes = write.puts.iter().map(|row| row.value.len()).sum();
        self.write(bytes, move |store| store.write_rows(table, &write).map(Step::Done)).await
    }
}

impl PoolStore for EmbeddedStore {
    fn pool_rows(&self) -> [Bytes; 2] {
        [Bytes::new(), Bytes::new()]
    }
}

impl<T: tables::Table> View<T> {
    fn rows(&self, table: &Table, read: &Read, now_us: u64) -> Result<Vec<Row>, Error> {
        let [rows, of_projects, ends, _] = table.prefixes;
        match read {
            Read::Row(key) => Ok(self.stored_row(table, key)?.into_iter().collect()),
            Read::Page { project, after, limit } => {
                let prefix =
                    project.as_ref().map_or_else(|| vec![rows], |project| keys::of_project(of_projects, project));
                let first = [&prefix, after.as_deref().unwrap_or_default()].concat();
                let first = if after.is_some() { Bound::Excluded(&*first) } else { Bound::Included(&*first) };
                self.indexed(table, (first, Bound::Excluded(&keys::prefix_end(&prefix))), prefix.len(), *limit)
            }
            Read::Ended => {
                let end = keys::ending(ends, now_us.saturating_add(1), &[]);
                let ended = (Bound::Included(&[ends][..]), Bound::Excluded(&*end));
                self.indexed(table, ended, end.len(), ENDED_PER_STEP)
            }
        }
    }

    fn stored_row(&self, table: &Table, key: &[u8]) -> Result<Option<Row>, Error> {
        let stored = self.registry.get(&*[&table.prefixes[..1], key].concat())?;
        let copy = Bytes::copy_from_slice;
        Ok(stored.map(|value| Row { key: copy(key), value: copy(value.value()) }))
    }

    /// Returns the first rows that a range of an index leads to. `before` is the length of what
    /// precedes the key of a row there, in bytes.
    fn indexed(&self, table: &Table, range: KeyRange<'_>, before: usize, limit: usize) -> Result<Vec<Row>, Error> {
        let entries = self.registry.range::<&[u8]>(range)?.take(limit);
        let rows = entries.map(|entry| self.stored_row(table, entry?.0.value().get(before..).unwrap_or_default()));
        rows.filter_map(Result::transpose).collect()
    }

    /// Returns the stored number of rows of a project, or of all.
    fn row_count(&self, key: &[u8]) -> Result<u64, Error> {
        let count = self.registry.get(key)?.map(|count| count.value().try_get_u64());
        count.unwrap_or(Ok(0)).map_err(|_| damaged("a number of rows"))
    }
}

impl WriteTransaction<'_> {
    fn write_rows(&mut self, table: &Table, write: &Write) -> Result<Written, Error> {
        for (at, condition) in write.conditions.iter().enumerate() {
            let (holds, present) = match condition {
                Condition::Row { key, begins } => match (self.view.stored_row(table, key)?, begins) {
                    (Some(row), Some(bytes)) => (row.value.starts_with(bytes), Some(row.value)),
                    (present, begins) => (present.is_none() && begins.is_none(), present.map(|row| row.value)),
                },
                Condition::Fewer { project, max } => {
                    let count = keys::count(table.prefixes[3], project.as_ref());
                    (self.view.row_count(&count)? < (*max).into(), None)
                }
            };
            if !holds {
                return Ok(write.refused(at, present.as_deref()));
            }
        }
        for row in write.deletes.iter().chain(&write.puts) {
            if let Some(before) = self.remove_registry(&[&table.prefixes[..1], &row.key].concat())? {
                self.index_row(table, &row.key, &before, -1)?;
            }
        }
        for row in &write.puts {
            self.put_registry(&[&table.prefixes[..1], &row.key].concat(), &row.value)?;
            self.index_row(table, &row.key, &row.value, 1)?;
        }
        Ok(Written::Done)
    }

    /// Adds a row to the indexes of its table, or removes it. `change` is the change of the number
    /// of rows.
    fn index_row(&mut self, table: &Table, key: &[u8], value: &[u8], change: i64) -> Result<(), Error> {
        let Some(indexes) = &table.indexes else { return Ok(()) };
        let row = (indexes.of)(value)?;
        for entry in index_entries(table.prefixes, key, &row) {
            if change > 0 {
                self.put_registry(&entry, &[])?;
            } else {
                self.remove_registry(&entry)?;
            }
        }
        for count in counts_with(table.prefixes, &row) {
            match self.view.row_count(&count)?.saturating_add_signed(change) {
                0 => self.remove_registry(&count).map(drop)?,
                number => self.put_registry(&count, &number.to_be_bytes())?,
            }
        }
        Ok(())
    }
}

/// Returns the keys of the entries of a row in the indexes by project and by end.
pub(super) fn index_entries(prefixes: [u8; 4], key: &[u8], indexed: &Indexed) -> impl Iterator<Item = Vec<u8>> {
    let [_, of_projects, ends, _] = prefixes;
    let of_project = |project: &ProjectId| [&*keys::of_project(of_projects, project), key].concat();
    let end = (indexed.end_us > 0).then(|| keys::ending(ends, indexed.end_us, key));
    indexed.project.as_ref().map(of_project).into_iter().chain(end)
}

/// Returns the keys of the numbers of rows that include a row.
pub(super) fn counts_with([.., counts]: [u8; 4], indexed: &Indexed) -> impl Iterator<Item = Vec<u8>> {
    let of_project = indexed.project.as_ref().map(|project| keys::count(counts, Some(project)));
    [keys::count(counts, None)].into_iter().chain(of_project)
}
