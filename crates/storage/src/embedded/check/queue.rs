//! Verifies the contents of one queue.

use std::collections::HashMap;

use bytes::Bytes;

use crate::embedded::check::findings::Findings;
use crate::embedded::check::shards::ShardTotals;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::claim::ClaimRow;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::lease::Lease;
use crate::embedded::rows::located::{Located, Merged, SETS};
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::read::View;
use crate::entry::SizeClass;
use crate::key::{id_of, rank_of};
use crate::task_record::TaskRecord;
use crate::{Error, record};
use sukkal_domain::{ClaimId, MessageId, Order, QueueId, TaskState};

impl<T: Table> View<T> {
    pub(crate) fn check_queue(
        &self,
        queue: &QueueId,
        row: &QueueRow,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let number = row.number;
        let state = self.stored_state(number)?;
        let mut counted = QueueState {
            offset: state.offset,
            logical: state.logical,
            due: state.due,
            busy: state.busy,
            bytes: state.bytes.map(|_| 0),
            ..state.emptied()
        };
        let mut shards = ShardTotals::default();
        let mut last_rank = 0;
        let mut entries = Merged::new(self.all_located(number)?, Order::OldestFirst)?;
        for entry in self.all_of(number, Part::Message)? {
            let (key, record) = entry?;
            let key: Key = key.as_slice().try_into().map_err(|_| damaged("a message's key"))?;
            let id = id_of(queue, &key)?;
            findings.check.messages += 1;
            counted.total += 1;
            findings
                .expect(rank_of(&key) > last_rank, format_args!("message {id} has the same rank as another message"));
            last_rank = rank_of(&key);
            let located = entries.next().transpose()?;
            let located = located.filter(|located| *located.key() == key);
            findings.expect(located.is_some(), format_args!("message {id} or one before it is not in exactly one set"));
            if let Some(located) = located {
                counted.sharded += u64::from(located.shard.is_some());
                shards.add(self, (row, &state), (id, &located), findings)?;
                self.check_message(number, id, (&located, &record), &mut counted, findings)?;
            }
        }
        findings.expect(entries.next().is_none(), "a set has an entry without a message");
        findings.expect(
            state == counted,
            format_args!("the stored counts are {state:?}, but the contents are {counted:?}"),
        );
        shards.compare(self, (number, &state), findings)?;
        let forgotten = state.delayed > 0 || (state.offset, state.logical) == (0, 0);
        findings.expect(forgotten, "no message is delayed, but a logical time is stored");
        let expirations = self.all_of(number, Part::Expiration)?.count() as u64;
        findings.expect(
            expirations == counted.total,
            format_args!("{} messages have {expirations} expirations", counted.total),
        );
        let due = self.first_due(number, &state)?.first();
        findings.expect(state.due <= due, "a change is due before the stored time of the next one");
        self.check_claims(number, findings)?;
        self.check_tasks(number, findings)?;
        self.check_deliveries(queue, &state, findings)
    }

    /// Verifies one message, and adds it to the counts.
    fn check_message(
        &self,
        number: u64,
        id: MessageId,
        (located, record): (&Located, &Bytes),
        counted: &mut QueueState,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (key, entry) = (located.key(), &located.entry);
        let mut sets = 0;
        for set in SETS {
            sets += usize::from(self.contents.get(&keys::message(number, set, key)[..])?.is_some());
        }
        findings.expect(sets == 1, format_args!("message {id} is in {sets} sets"));
        if let Err(error) = record::check(id, record) {
            findings.expect(false, error);
        }
        let size = SizeClass::of(record.len());
        findings
            .expect(entry.size == size, format_args!("message {id} has {size:?}, but its entry has {:?}", entry.size));
        let is_in_flight = located.set == Part::InFlight;
        counted.bytes = counted.bytes.map(|sum| sum + size.bytes_max() as u64);
        counted.in_flight += u64::from(is_in_flight);
        counted.delayed += u64::from(located.set == Part::Delayed);
        findings.expect(
            is_in_flight || (entry.claim, entry.before) == (None, None),
            format_args!("message {id} is claimed but not in flight"),
        );
        if let Some(claim) = entry.claim {
            let is_listed = self.claim(number, claim)?.is_some_and(|row| row.keys.contains(key));
            findings.expect(is_listed, format_args!("message {id} has a claim that does not list it"));
        }
        let is_visible = located.set != Part::Ready || rank_of(key) <= counted.last;
        findings.expect(is_visible, format_args!("message {id} is available before its rank was assigned"));
        let expiration =
            self.contents.get(&*keys::timed(number, Part::Expiration, entry.current_end_s().into(), key))?;
        findings.expect(expiration.is_some(), format_args!("message {id} has no expiration"));
        Ok(())
    }

    /// Verifies that just the running tasks have a lease.
    fn check_tasks(&self, number: u64, findings: &mut Findings<'_>) -> Result<(), Error> {
        for entry in self.all_of(number, Part::Task)? {
            let (id, task) = entry?;
            let Some(task) = findings.expect_readable(TaskRecord::decode(&task)) else { continue };
            let is_running = task.state == TaskState::Running;
            let lease = self.contents.get(&*keys::content(number, Part::TaskLease, &id))?;
            findings.expect(is_running == lease.is_some(), "a task is running without a lease, or has ended with one");
        }
        Ok(())
    }

    fn check_claims(&self, number: u64, findings: &mut Findings<'_>) -> Result<(), Error> {
        let mut lease_ends = HashMap::new();
        for (end_us, lease) in self.until(number, Part::Lease, u64::MAX - 1, usize::MAX)? {
            let other = lease_ends.insert(lease.clone(), end_us);
            findings.expect(other.is_none(), "a lease has two ends");
            if let Lease::Claim(id) = Lease::decode(&lease)? {
                let row = self.claim(number, id)?;
                findings.expect(
                    row.is_some_and(|row| row.end_us == end_us),
                    format_args!("claim {id} does not exist, or its lease ends at another time"),
                );
            }
        }
        for entry in self.all_of(number, Part::Claim)? {
            let (id, row) = entry?;
            findings.expect(lease_ends.contains_key(&id), "a claim has no lease");
            let (id, row) = (id.try_into().map_err(|_| damaged("the id of a claim"))?, ClaimRow::decode(&row)?);
            let id = ClaimId::from_bytes(id);
            let held = self.held_messages(number, Lease::Claim(id), &row.keys)?.len();
            findings.expect(
                row.held.is_none_or(|recorded| recorded as usize == held),
                format_args!("claim {id} holds another number of messages than is recorded"),
            );
        }
        for located in self.entries(number, Part::InFlight, 0)? {
            if let Some(lease) = located?.lease() {
                findings.expect(lease_ends.contains_key(&lease.encode()), "a message is in flight without a lease");
            }
        }
        Ok(())
    }
}
