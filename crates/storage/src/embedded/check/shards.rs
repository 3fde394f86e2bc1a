//! Verifies the shards of a queue: which messages have one, and the stored counts.

use std::collections::BTreeMap;

use crate::Error;
use crate::embedded::check::findings::Findings;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::fair::shards::UNSHARDED;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::shard_counts::{Block, SetCounts, ShardCounts};
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::read::View;
use crate::key::rank_of;
use sukkal_domain::MessageId;

/// Counts of the messages that were found in the shards of a queue.
#[derive(Default)]
pub(crate) struct ShardTotals {
    counts: BTreeMap<u16, SetCounts>,
    turns: u64,
}

impl ShardTotals {
    /// Verifies the shard of one message, and counts it.
    pub(crate) fn add<T: Table>(
        &mut self,
        view: &View<T>,
        (row, state): (&QueueRow, &QueueState),
        (id, located): (MessageId, &Located),
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (rank, is_free) = (rank_of(located.key()), located.set == Part::Ready);
        let Some(shard) = located.shard else {
            // A delayed message may be from before the queue became fair.
            let needs_none = !state.is_fair(&row.policy) || rank <= state.boundary || located.set == Part::Delayed;
            findings.expect(needs_none, format_args!("message {id} has no shard"));
            return Ok(());
        };
        findings.expect(
            rank > state.boundary,
            format_args!("message {id} is from before the queue became fair, but has a shard"),
        );
        findings.expect(shard <= UNSHARDED, format_args!("message {id} has shard {shard}, which is out of range"));
        *self.counts.entry(shard).or_default().in_set_mut(located.set) += 1;
        self.turns += u64::from(is_free);
        if is_free {
            let turn = view.contents.get(&*keys::shard(row.number, Part::Turn, shard, located.key()))?;
            let has_turn = turn.is_some_and(|hold| hold.value() == located.encode_entry());
            findings.expect(has_turn, format_args!("message {id} has no turn, or a turn with another entry"));
        }
        Ok(())
    }

    /// Compares the messages that were found with the stored counts.
    pub(crate) fn compare<T: Table>(
        self,
        view: &View<T>,
        (number, state): (u64, &QueueState),
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let all_shard_counts: BTreeMap<u16, ShardCounts> = view.all_shard_counts(number)?.into_iter().collect();
        let counted = all_shard_counts.iter().map(|(shard, shard_counts)| (*shard, shard_counts.counts)).collect();
        findings.expect(
            self.counts == counted,
            format_args!("the stored counts of shards are {counted:?}, but their contents are {:?}", self.counts),
        );
        let busy = all_shard_counts
            .iter()
            .filter(|(_, shard_counts)| shard_counts.counts.available > 0)
            .map(|(shard, _)| Block::number_of(*shard));
        let busy = QueueState::busy_with(busy);
        findings.expect(
            state.busy == busy,
            format_args!("the stored bits of busy blocks are {:b}, but should be {busy:b}", state.busy),
        );
        self.compare_turns(view, number, &all_shard_counts, findings)
    }

    /// Verifies that each available message has a turn, and that the passed entries come before.
    fn compare_turns<T: Table>(
        self,
        view: &View<T>,
        number: u64,
        all_shard_counts: &BTreeMap<u16, ShardCounts>,
        findings: &mut Findings<'_>,
    ) -> Result<(), Error> {
        let (mut turns, mut passed) = (0, BTreeMap::new());
        for entry in view.all_of(number, Part::Turn)? {
            let (turn, _) = entry?;
            let (shard, key) = turn.split_first_chunk().ok_or_else(|| damaged("a turn"))?;
            let (shard, key) = (u16::from_be_bytes(*shard), key.try_into().map_err(|_| damaged("a turn"))?);
            if all_shard_counts.get(&shard).is_some_and(|shard_counts| shard_counts.has_passed(&key)) {
                *passed.entry(shard).or_default() += 1;
            } else {
                turns += 1;
            }
        }
        findings.expect(turns == self.turns, format_args!("{} messages have {turns} turns", self.turns));
        let counted = all_shard_counts
            .iter()
            .map(|(shard, shard_counts)| (*shard, shard_counts.passed))
            .filter(|(_, passed)| *passed > 0);
        let counted: BTreeMap<u16, u32> = counted.collect();
        findings.expect(
            passed == counted,
            format_args!("the stored counts of passed entries are {counted:?}, but there are {passed:?}"),
        );
        Ok(())
    }
}
