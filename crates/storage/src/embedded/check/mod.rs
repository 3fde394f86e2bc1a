//! Verifies a store's integrity: each message is in one set and is counted once.

use std::collections::{HashMap, HashSet};

use bytes::Buf;

use crate::embedded::check::findings::Findings;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::queues::counts_with;
use crate::embedded::rows::keys::{self, DISCARDED, EXPIRIES, QUEUES, kept_until};
use crate::embedded::rows::queue::{QueueRow, read_queue};
use crate::embedded::transaction::read::View;
use crate::{Check, Error};

mod deliveries;
mod findings;
mod outbox;
mod queue;
mod records;
mod repair;
mod scan;
mod shards;

impl<T: Table> View<T> {
    /// Verifies the whole store, which takes as long as reading it.
    pub(super) fn check(&self) -> Result<Check, Error> {
        let mut check = Check::default();
        let mut numbers = HashMap::new();
        let mut projects: HashMap<Vec<u8>, u64> = HashMap::new();
        for (key, row) in self.all_with(&[QUEUES])? {
            let queue = keys::decode_queue(&key).ok_or_else(|| damaged("a queue's name"))?;
            let mut findings = Findings { check: &mut check, subject: queue.to_string() };
            for key in counts_with(&queue) {
                *projects.entry(key).or_default() += 1;
            }
            if QueueRow::decode(&row).is_ok_and(|(row, _)| row.is_located()) {
                continue;
            }
            findings.check.queues += 1;
            findings.expect_readable(read_queue(&row));
            let read = QueueRow::decode(&row).map(|(row, _)| row);
            let Some(row) = read.ok().or_else(|| QueueRow::decode_head(&row)) else { continue };
            let other = numbers.insert(row.number, queue.clone());
            findings.expect(other.is_none(), "its contents number belongs to another queue too");
            let subscriptions = self.stored_state(row.number).map_or(0, |state| state.subscriptions);
            if subscriptions > 0 {
                let other = numbers.insert(subscriptions, queue.clone());
                findings.expect(other.is_none(), "the contents number of its subscriptions is used twice");
            }
            match self.check_queue(&queue, &row, &mut findings) {
                // The rest of this queue is not verified.
                Err(Error::Corrupt(reason)) => findings.expect(false, reason),
                outcome => outcome?,
            }
        }
        let mut findings = Findings { check: &mut check, subject: "the registry".to_owned() };
        let counts = [self.all_with(&[keys::PROJECTS])?, self.all_with(&[keys::TOPICS])?];
        let counted: HashMap<Vec<u8>, u64> =
            counts.into_iter().flatten().map(|(key, count)| (key, (&*count).try_get_u64().unwrap_or(0))).collect();
        findings.expect(counted == projects, "the stored numbers of queues are wrong");
        let discarded: HashSet<u64> =
            self.all_with(&[DISCARDED])?.iter().filter_map(|(key, _)| keys::discarded_number(key)).collect();
        for number in self.numbers()? {
            let is_known = numbers.contains_key(&number) != discarded.contains(&number);
            findings.expect(
                is_known,
                format_args!("contents {number} belong to no queue, or to a queue although they are discarded"),
            );
        }
        for (expiry, _) in self.all_with(&[EXPIRIES])? {
            let kept = self.registry.get(keys::expiring_key(&expiry))?;
            let until = kept.and_then(|kept| kept_until(kept.value()));
            findings.expect(
                keys::ending(keys::EXPIRIES, until.unwrap_or(0), keys::expiring_key(&expiry)) == expiry,
                "an expiry differs from that of its row",
            );
        }
        self.check_outboxes(&mut check)?;
        self.check_records(&mut check)?;
        Ok(check)
    }
}
