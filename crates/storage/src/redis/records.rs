//! Tables of records in Redis. The keys of a table are in one slot:
//!
//! | key | type | contents |
//! |---|---|---|
//! | `sukkal:{TAG}:records` | hash | value of each row by its key |
//! | `sukkal:{TAG}` | hash | the same of a table without indexes: its keys are encoded as in `keys.rs` |
//! | `sukkal:{TAG}:ids` | zset | the keys, in byte order |
//! | `sukkal:{TAG}:projects` | zset | of each row of a project: length (2 bytes) and text of the project, key |
//! | `sukkal:{TAG}:ends` | zset | the keys of rows that end, by that time (µs) |

use async_trait::async_trait;
use bytes::Bytes;
use percent_encoding::{percent_decode, percent_encode};

use super::RedisStore;
use super::arguments::number;
use super::keys;
use super::reply::Reply;
use super::script::{RECORD_DELETE, RECORD_READ, RECORD_WRITE};
use crate::Error;
use crate::key::prefix_end;
use crate::records::{Condition, ENDED_PER_STEP, Indexed, Read, Records, Row, Table, Write, Written};
use sukkal_domain::ProjectId;

/// Approximate number of rows that one command reads.
const ROWS_PER_COMMAND: &str = "500";

/// Positions of the keys of a table.
const ROWS: usize = 0;
const IDS: usize = 1;
const PROJECTS: usize = 2;
const ENDS: usize = 3;

#[async_trait]
impl Records for RedisStore {
    async fn read_rows(&self, table: &'static Table, reads: Vec<Read>) -> Result<(u64, Vec<Vec<Row>>), Error> {
        let args = reads.into_iter().flat_map(|read| query(table, read)).collect();
        let mut reply = self.connection.run_on(&RECORD_READ, keys_of(table).into(), args).await?;
        Ok((reply.number()?, reply.read_all(|reply| rows(table, reply.list()?, reply.list()?))?))
    }

    async fn all_rows(&self, table: &'static Table) -> Result<Vec<Row>, Error> {
        let ([of, ..], mut cursor, mut rows) = (keys_of(table), "0".to_owned(), Vec::new());
        loop {
            let found = self.scan(&of, &mut cursor, ROWS_PER_COMMAND).await?.into_iter();
            rows.extend(found.map(|(key, value)| Row { key: read_key(table, key), value }));
            if cursor == "0" {
                return Ok(rows);
            }
        }
    }

    async fn write_rows(&self, table: &'static Table, write: Write) -> Result<Written, Error> {
        let (keys, mut args) = (keys_of(table), Vec::new());
        let mut add = |kind: &'static str, expected: Bytes, command: &'static str, key: usize, rest: &[Bytes]| {
            args.extend([kind.into(), expected, number(2 + rest.len() as u64), command.into()]);
            args.push(Bytes::copy_from_slice(keys[key].as_bytes()));
            args.extend_from_slice(rest);
        };
        for condition in &write.conditions {
            match condition {
                Condition::Row { key, begins } => {
                    let kind = if begins.is_some() { "begins" } else { "absent" };
                    add(kind, begins.clone().unwrap_or_default(), "HGET", ROWS, &[stored_key(table, key)]);
                }
                Condition::Fewer { project: None, max } => add("fewer", number((*max).into()), "HLEN", ROWS, &[]),
                Condition::Fewer { project: Some(project), max } => {
                    let entries = range(&of_project(project), None);
                    add("fewer", number((*max).into()), "ZLEXCOUNT", PROJECTS, &entries);
                }
            }
        }
        let mut change = |command, key, rest: &[Bytes]| add("change", Bytes::new(), command, key, rest);
        for row in &write.deletes {
            change("HDEL", ROWS, &[stored_key(table, &row.key)]);
            entries(table, row)?.into_iter().for_each(|(index, member, _)| change("ZREM", index, &[member]));
        }
        for row in &write.puts {
            change("HSET", ROWS, &[stored_key(table, &row.key), row.value.clone()]);
            entries(table, row)?.into_iter().for_each(|(index, member, score)| {
                change("ZADD", index, &[number(score), member]);
            });
        }
        let script = if write.puts.is_empty() { &RECORD_DELETE } else { &RECORD_WRITE };
        let mut reply = self.connection.run_on(script, keys.into(), args).await?;
        if reply.is_empty() {
            return Ok(Written::Done);
        }
        let at = usize::try_from(reply.number()?).unwrap_or(usize::MAX);
        Ok(write.refused(at, reply.bytes_or_nil().as_deref()))
    }
}

/// Returns the key of the rows of a table, and those of its indexes by key, by project and by end.
pub(super) fn keys_of(table: &Table) -> [String; 4] {
    let [rows, ids, projects, ends] =
        [":records", ":ids", ":projects", ":ends"].map(|name| format!("sukkal:{{{}}}{name}", table.tag));
    let rows = if table.indexes.is_some() { rows } else { format!("sukkal:{{{}}}", table.tag) };
    [rows, ids, projects, ends]
}

/// Returns the field of a row in the hash of its table.
pub(super) fn stored_key(table: &Table, key: &Bytes) -> Bytes {
    if table.indexes.is_some() { key.clone() } else { percent_encode(key, keys::ENCODED).to_string().into() }
}

/// Returns the key of the row with a field.
fn read_key(table: &Table, field: Bytes) -> Bytes {
    if table.indexes.is_some() { field } else { percent_decode(&field).collect() }
}

/// Returns the entries of a row in the indexes: the position of the key, the member and its score.
pub(super) fn entries(table: &Table, row: &Row) -> Result<Vec<(usize, Bytes, u64)>, Error> {
    let Some(indexes) = &table.indexes else { return Ok(Vec::new()) };
    let Indexed { project, end_us } = (indexes.of)(&row.value)?;
    let of_project = project.map(|project| (PROJECTS, [&of_project(&project), &*row.key].concat().into(), 0));
    let end = (end_us > 0).then(|| (ENDS, row.key.clone(), end_us));
    Ok([(IDS, row.key.clone(), 0)].into_iter().chain(of_project).chain(end).collect())
}

/// Returns the bytes with which the entries of a project begin.
fn of_project(project: &ProjectId) -> Vec<u8> {
    let text = project.as_str().as_bytes();
    let length = u16::try_from(text.len()).expect("ids of projects are short");
    [&length.to_be_bytes()[..], text].concat()
}

/// Returns the range of the entries that begin with a prefix, after the key `after`.
fn range(prefix: &[u8], after: Option<&Bytes>) -> [Bytes; 2] {
    let first = [if after.is_some() { b"(" } else { &b"["[..] }, prefix, after.map_or(b"", |after| after)].concat();
    let last = if prefix.is_empty() { b"+".to_vec() } else { [&b"("[..], &prefix_end(prefix)].concat() };
    [first.into(), last.into()]
}

/// Returns the arguments of `record_read` for a query.
fn query(table: &Table, read: Read) -> [Bytes; 5] {
    let none = Bytes::new;
    match read {
        Read::Row(key) => ["1".into(), stored_key(table, &key), none(), none(), none()],
        Read::Page { project, after, limit } => {
            let (index, prefix) = project.map_or_else(|| ("2", Vec::new()), |project| ("3", of_project(&project)));
            let [first, last] = range(&prefix, after.as_ref());
            [index.into(), first, last, number(limit as u64), number(prefix.len() as u64)]
        }
        Read::Ended => ["4".into(), none(), none(), number(ENDED_PER_STEP as u64), none()],
    }
}

fn rows(table: &Table, mut fields: Reply, mut values: Reply) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::with_capacity(fields.len());
    while !fields.is_empty() {
        let key = read_key(table, fields.bytes()?);
        rows.extend(values.bytes_or_nil().map(|value| Row { key, value }));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quotas::QUOTAS;

    #[test]
    fn the_keys_of_a_table_without_indexes_are_stored_as_texts() {
        for (key, field) in [("", ""), ("a_-.Z9", "a_-.Z9"), ("a b/é\0%", "a%20b%2F%C3%A9%00%25")] {
            let (key, field) = (Bytes::from(key), Bytes::from(field));
            assert_eq!(stored_key(&QUOTAS, &key), field);
            assert_eq!(read_key(&QUOTAS, field), key);
        }
        assert_eq!(keys_of(&QUOTAS)[ROWS], "sukkal:{quotas}");
    }
}
