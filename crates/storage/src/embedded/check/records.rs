//! Verifies the tables of records: each row is indexed and counted once.

use std::collections::HashMap;

use bytes::Buf;

use crate::embedded::check::findings::Findings;
use crate::embedded::engine::tables::Table;
use crate::embedded::records::{counts_with, index_entries};
use crate::embedded::transaction::read::View;
use crate::{COPIED_TABLES, Check, Error, records};

impl<T: Table> View<T> {
    pub(crate) fn check_records(&self, check: &mut Check) -> Result<(), Error> {
        for table in COPIED_TABLES {
            self.check_table(table, &mut Findings { check, subject: format!("the {}", table.tag) })?;
        }
        Ok(())
    }

    fn check_table(&self, table: &records::Table, findings: &mut Findings<'_>) -> Result<(), Error> {
        let (prefixes, Some(records::Indexes { of, check })) = (table.prefixes, &table.indexes) else { return Ok(()) };
        let (mut counts, mut entries) = (HashMap::<Vec<u8>, u64>::new(), [0; 2]);
        for (key, value) in self.all_with(&prefixes[..1])? {
            let key = &key[1..];
            let Some((name, indexed)) =
                findings.expect_readable(check(key, &value).and_then(|name| Ok((name, of(&value)?))))
            else {
                continue;
            };
            for entry in index_entries(prefixes, key, &indexed) {
                entries[usize::from(entry[0] == prefixes[2])] += 1;
                let exists = self.registry.get(&*entry)?.is_some();
                findings.expect(exists, format_args!("{name} is missing in an index"));
            }
            counts_with(prefixes, &indexed).for_each(|count| *counts.entry(count).or_default() += 1);
        }
        let stored = self.all_with(&prefixes[3..])?.into_iter();
        let stored: HashMap<_, _> = stored.map(|(key, count)| (key, (&*count).try_get_u64().unwrap_or(0))).collect();
        findings.expect(stored == counts, format_args!("the stored numbers of {} are wrong", table.tag));
        for (prefix, expected) in prefixes[1..].iter().zip(entries) {
            let rows = self.all_with(&[*prefix])?.len();
            findings.expect(rows == expected, format_args!("an index has {rows} entries for {expected} {}", table.tag));
        }
        Ok(())
    }
}
