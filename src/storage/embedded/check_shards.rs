//! Looks whether the shards of a queue are what they should be: who has one, and what is counted of each.

use std::collections::BTreeMap;

use super::check::Findings;
use super::keys::{self, Part, Table};
use super::places::Place;
use super::shards::{Counts, UNSHARDED};
use super::state::{Row, State};
use super::view::View;
use crate::domain::MessageId;
use crate::storage::Error;
use crate::storage::key::rank_of;

/// What was seen of a queue's shards.
#[derive(Default)]
pub(super) struct SeenShards {
    counts: BTreeMap<u16, Counts>,
    turns: usize,
}

impl SeenShards {
    /// Looks at the shard of one message, and counts it.
    pub(super) fn see<T: Table>(
        &mut self,
        view: &View<T>,
        (row, state): (&Row, &State),
        (id, place): (MessageId, &Place),
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (rank, is_free) = (rank_of(&place.key), place.set == Part::Ready);
        let Some(shard) = place.shard else {
            // What is not due yet may be from before the queue was fair.
            let needs_none = !state.is_fair(&row.policy) || rank <= state.boundary || place.set == Part::Delayed;
            findings.expect(needs_none, format_args!("message {id} has no shard"));
            return Ok(());
        };
        findings
            .expect(rank > state.boundary, format_args!("message {id} is from before there were shards, and has one"));
        findings.expect(shard <= UNSHARDED, format_args!("message {id} has shard {shard}"));
        *self.counts.entry(shard).or_default().of(place.set) += 1;
        self.turns += usize::from(is_free);
        let turn = view.contents.get(&*keys::of_shard(row.number, Part::Turn, shard, &place.key))?;
        findings
            .expect(turn.is_some() == is_free, format_args!("message {id} has no turn, or is not free and has one"));
        Ok(())
    }

    /// Compares all that was seen with what is counted.
    pub(super) fn compare<T: Table>(
        self,
        view: &View<T>,
        number: u64,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let counted: BTreeMap<u16, Counts> = view.all_counts(number)?.into_iter().collect();
        findings.expect(
            counted == self.counts,
            format_args!("of the shards {counted:?} is counted, {:?} is there", self.counts),
        );
        let turns = view.all_of(number, Part::Turn)?.count();
        findings.expect(turns == self.turns, format_args!("{} messages have {turns} turns", self.turns));
        Ok(())
    }
}
