//! Verifies the tokens: each is listed and counted once.

use std::collections::HashMap;

use bytes::Buf;

use crate::domain::ProjectId;
use crate::storage::embedded::check::findings::Findings;
use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::engine::tables::Table;
use crate::storage::embedded::rows::keys::{self, TOKENS};
use crate::storage::embedded::transaction::read::View;
use crate::storage::token_record::{self, TokenHead};
use crate::storage::{Check, Error};

impl<T: Table> View<T> {
    pub(crate) fn check_tokens(&self, check: &mut Check) -> Result<(), Error> {
        let mut findings = Findings { check, subject: "the tokens".to_owned() };
        let mut counts: HashMap<Vec<u8>, u64> = HashMap::new();
        let (mut of_projects, mut ending) = (0, 0);
        for (key, record) in self.all_with(&[TOKENS])? {
            let id = keys::token_at_end(&key).ok_or_else(|| damaged("a token's id"))?;
            let head = match (TokenHead::decode(&record), token_record::decode(id, &record, 0)) {
                (Ok((head, _)), Ok(_)) => head,
                (Err(error), _) | (_, Err(error)) => {
                    findings.expect(false, error);
                    continue;
                }
            };
            let mut expect_row = |row: Vec<u8>| {
                let exists = self.registry.get(&*row)?.is_some();
                findings.expect(exists, format_args!("token {id} is missing in an index"));
                Ok::<_, Error>(())
            };
            if head.ends_us > 0 {
                ending += 1;
                expect_row(keys::token_end(head.ends_us, Some(id)))?;
            }
            if let Some(project) = &head.project {
                of_projects += 1;
                expect_row(keys::token_of_project(project, id))?;
                *counts.entry(keys::token_count(Some(project))).or_default() += 1;
            }
            *counts.entry(keys::token_count(None::<&ProjectId>)).or_default() += 1;
        }
        let stored: HashMap<Vec<u8>, u64> = self
            .all_with(&keys::token_counts_prefix())?
            .into_iter()
            .map(|(key, count)| (key, (&*count).try_get_u64().unwrap_or(0)))
            .collect();
        findings.expect(stored == counts, "the stored numbers of tokens are wrong");
        for (prefix, expected) in
            [(keys::tokens_of_projects_prefix(), of_projects), (keys::token_ends_prefix(), ending)]
        {
            let rows = self.all_with(&prefix)?.len();
            findings.expect(rows == expected, format_args!("an index has {rows} entries for {expected} tokens"));
        }
        Ok(())
    }
}
