//! A write transaction, shared by the operations of a batch. It caches the state of each queue that
//! they use, and writes the changed states at the end.

use std::collections::{BTreeMap, BTreeSet};

use redb::{ReadableTable, Table};

use crate::embedded::engine::clock::Clock;
use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::{CONTENTS, REGISTRY, SPACE_RESERVATION, Slice};
use crate::embedded::rows::keys::{self, Key, Part, kept_until};
use crate::embedded::rows::located::Located;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::shard_counts::{BLOCK_SHARDS, Block};
use crate::embedded::rows::state::QueueState;
use crate::embedded::rows::tenants::Tenants;
use crate::embedded::transaction::read::View;
use crate::embedded::transaction::read_ahead::ReadAheadCache;
use crate::key::rank_of;
use crate::{Error, Processed};
use sukkal_domain::{QueueId, Rank};

/// Approximate maximum number of leases and messages that due changes release or remove in one
/// transaction.
pub(crate) const DUE_CHANGES_PER_TRANSACTION: usize = 500;

/// More bytes than a commit needs for the engine's own records.
const COMMIT_BYTES: usize = 250_000;

/// Makes the engine allocate space before the commit. If the disk is full, the transaction can
/// still be aborted.
pub(crate) fn reserve_space(transaction: &redb::WriteTransaction) -> Result<(), Error> {
    transaction.open_table(SPACE_RESERVATION)?.insert_reserve(&b""[..], COMMIT_BYTES)?;
    transaction.delete_table(SPACE_RESERVATION)?;
    Ok(())
}

/// A write transaction on the store, with cached states of its queues.
pub(crate) struct WriteTransaction<'t> {
    pub(crate) view: View<Table<'t, Slice, Slice>>,
    states: BTreeMap<u64, Cached<QueueState>>,
    /// Cached counts and tenants of fair queues, by contents number.
    pub(crate) fair: BTreeMap<u64, FairCache>,
    /// Messages of their shards that have been read in advance.
    pub(crate) read_ahead: ReadAheadCache,
    /// The queues that this transaction has used, by contents number.
    names: BTreeMap<u64, QueueId>,
    /// Number of messages that became available, by contents number; 0 if something may be due
    /// sooner than before. Also the lowest position of those that are not after all others.
    freed: BTreeMap<u64, (u64, Option<Rank>)>,
    /// Contents numbers of queues in which deliveries may be due.
    signaled: BTreeSet<u64>,
    /// Whether messages can move to queues of other stores.
    pub(crate) has_other_stores: bool,
    /// Contents numbers of queues that have moved messages to their outbox.
    pub(crate) filled_outboxes: BTreeSet<u64>,
    clock: &'t Clock,
    is_changed: bool,
    /// How many more leases and messages due changes may release or remove in this transaction.
    due_changes_left: usize,
    /// Messages that this transaction has processed.
    pub(crate) processed: Processed,
}

/// Cached counts and tenants of a fair queue.
#[derive(Default)]
pub(crate) struct FairCache {
    pub(crate) blocks: BTreeMap<u16, Cached<Block>>,
    /// Present only if changed.
    pub(crate) tenants: Option<Tenants>,
}

/// Notifications to send after the commit.
pub(crate) struct Notifications {
    /// For waiters: a queue, the number of messages that became available, and the lowest position
    /// among them that readers may have passed.
    pub(crate) available: Vec<(QueueId, u64, Option<Rank>)>,
    /// Queues in which deliveries may be due.
    pub(crate) deliveries: Vec<QueueId>,
}

/// A cached value, which is written at the end if it has changed.
pub(crate) struct Cached<T> {
    pub(crate) value: T,
    pub(crate) is_changed: bool,
}

impl<'t> WriteTransaction<'t> {
    pub(crate) fn begin(
        transaction: &'t redb::WriteTransaction,
        clock: &'t Clock,
        has_other_stores: bool,
        read_ahead: ReadAheadCache,
    ) -> Result<Self, Error> {
        let view = View { registry: transaction.open_table(REGISTRY)?, contents: transaction.open_table(CONTENTS)? };
        let (states, fair) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self {
            view,
            states,
            fair,
            read_ahead,
            names: BTreeMap::new(),
            freed: BTreeMap::new(),
            signaled: BTreeSet::new(),
            has_other_stores,
            filled_outboxes: BTreeSet::new(),
            clock,
            is_changed: false,
            due_changes_left: DUE_CHANGES_PER_TRANSACTION,
            processed: Processed::default(),
        })
    }

    /// Writes the changed states and counts; the transaction must not be committed without them.
    /// Returns the notifications, or `None` if there is nothing to commit, and the read-ahead
    /// cache.
    pub(crate) fn finish(mut self) -> Result<(Option<Notifications>, ReadAheadCache), Error> {
        for (number, cached) in std::mem::take(&mut self.states) {
            if cached.is_changed {
                self.put(&keys::part_prefix(number, Part::State), &cached.value.encode())?;
            }
        }
        for (number, fair) in std::mem::take(&mut self.fair) {
            self.write_fair(number, fair)?;
        }
        let mut names = self.names;
        let deliveries = self.signaled.iter().filter_map(|number| names.get(number).cloned()).collect();
        let available =
            self.freed.into_iter().filter_map(|(number, (freed, older))| Some((names.remove(&number)?, freed, older)));
        let notifications = Notifications { available: available.collect(), deliveries };
        Ok((self.is_changed.then_some(notifications), self.read_ahead))
    }

    /// Returns the queue without its metadata.
    pub(crate) fn row(&mut self, queue: &QueueId) -> Result<Option<QueueRow>, Error> {
        let row = self.view.row(queue)?;
        if let Some(row) = &row {
            self.names.insert(row.number, queue.clone());
        }
        Ok(row)
    }

    /// Notifies waiters that this number of messages became available. With 0, something that is
    /// delayed or leased may be due sooner than they know.
    pub(crate) fn notify(&mut self, number: u64, freed: u64) {
        self.freed.entry(number).or_default().0 += freed;
    }

    /// Notifies readers that this message became available although they may have passed its
    /// position.
    pub(crate) fn notify_older(&mut self, number: u64, key: &Key) {
        let rank = Rank::new(rank_of(key)).unwrap_or_default();
        let (_, older) = self.freed.entry(number).or_default();
        *older = Some(older.map_or(rank, |older| older.min(rank)));
    }

    /// Signals that deliveries may be due in a queue.
    pub(crate) fn signal_deliveries(&mut self, number: u64) {
        self.signaled.insert(number);
    }

    pub(crate) fn now_us(&self, queue: &QueueId) -> u64 {
        self.clock.now_us(queue)
    }

    pub(crate) fn state(&mut self, number: u64) -> Result<QueueState, Error> {
        if let Some(cached) = self.states.get(&number) {
            return Ok(cached.value);
        }
        let state = self.view.stored_state(number)?;
        self.states.insert(number, Cached { value: state, is_changed: false });
        Ok(state)
    }

    /// Changes the cached state of a queue. Signals deliveries if messages became visible, or were
    /// delayed.
    pub(crate) fn change_state(&mut self, number: u64, change: impl FnOnce(&mut QueueState)) -> Result<(), Error> {
        let mut state = self.state(number)?;
        let (last, delayed) = (state.last, state.delayed);
        change(&mut state);
        if (state.last > last || state.delayed > delayed) && state.subscription_count > 0 {
            self.signal_deliveries(number);
        }
        self.states.insert(number, Cached { value: state, is_changed: true });
        Ok(())
    }

    /// Returns how many more leases and messages due changes may release or remove.
    pub(crate) fn due_changes_left(&self) -> usize {
        self.due_changes_left
    }

    pub(crate) fn count_due_changes(&mut self, applied: usize) {
        self.due_changes_left = self.due_changes_left.saturating_sub(applied);
    }

    /// Records the logical time: with the next change, or now if the clock has stepped back.
    pub(crate) fn update_logical_time(&mut self, number: u64, now_us: u64) -> Result<(), Error> {
        if self.state(number)?.has_stepped_back(now_us) {
            self.raise_logical_time(number, now_us, 0)?;
        } else if let Some(cached) = self.states.get_mut(&number)
            && cached.value.delayed > 0
        {
            cached.value.raise_logical_time(now_us, 0);
        }
        Ok(())
    }

    /// Raises logical time to at least `to_us` (µs).
    pub(crate) fn raise_logical_time(&mut self, number: u64, now_us: u64, to_us: u64) -> Result<(), Error> {
        self.change_state(number, |state| state.raise_logical_time(now_us, to_us))
    }

    /// Records that nothing is due before this time (µs). It is written only with the next change.
    pub(crate) fn set_next_due(&mut self, number: u64, due: u64) {
        if let Some(cached) = self.states.get_mut(&number) {
            cached.value.due = due;
        }
    }

    /// Discards the contents with this number in constant time. Maintenance reclaims them later.
    pub(crate) fn discard_contents(&mut self, number: u64) -> Result<(), Error> {
        self.states.remove(&number);
        self.fair.remove(&number);
        self.put_registry(&keys::discarded(number), &[])
    }

    /// Returns a contents number that was never used in this store.
    pub(crate) fn new_number(&mut self) -> Result<u64, Error> {
        let last = match self.view.registry.get(keys::LAST_NUMBER)? {
            Some(last) => u64::from_be_bytes(last.value().try_into().map_err(|_| damaged("the last contents number"))?),
            None => 0,
        };
        self.put_registry(keys::LAST_NUMBER, &(last + 1).to_be_bytes())?;
        Ok(last + 1)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.is_changed = true;
        self.view.contents.insert(key, value)?;
        Ok(())
    }

    /// Allocates space for this number of values on the disk, and frees it again.
    pub(crate) fn probe_space(&mut self, values: u8, bytes: usize) -> Result<(), Error> {
        // All other keys are longer.
        for key in 0..values {
            self.view.contents.insert_reserve(&[key][..], bytes)?;
        }
        for key in 0..values {
            self.view.contents.remove(&[key][..])?;
        }
        Ok(())
    }

    /// Removes a row of `contents`. Returns whether it existed.
    pub(crate) fn remove_key(&mut self, key: &[u8]) -> Result<bool, Error> {
        let was_there = self.view.contents.remove(key)?.is_some();
        self.is_changed |= was_there;
        Ok(was_there)
    }

    /// Removes the rows of `contents` from the first key to the last, both included.
    pub(crate) fn remove_range(&mut self, first: &[u8], last: &[u8]) -> Result<(), Error> {
        self.is_changed = true;
        self.view.contents.retain_in::<&[u8], _>(first..=last, |_, _| false)?;
        Ok(())
    }

    pub(crate) fn put_registry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        self.is_changed = true;
        self.view.registry.insert(key, value)?;
        Ok(())
    }

    /// Removes a row of the registry. Returns its value.
    pub(crate) fn remove_registry(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let taken = self.view.registry.remove(key)?.map(|value| value.value().to_vec());
        self.is_changed |= taken.is_some();
        Ok(taken)
    }

    /// Writes a message's entry to its set.
    pub(crate) fn put_entry(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        self.put(&keys::message(number, located.set, located.key()), &located.encode())
    }

    /// Records that a change is due at this time (µs).
    pub(crate) fn note_due(&mut self, number: u64, due: u64) -> Result<(), Error> {
        if due < self.state(number)?.due {
            self.change_state(number, |state| state.due = due)?;
        }
        Ok(())
    }

    /// Records when a message ends.
    pub(crate) fn note_expiration(&mut self, number: u64, key: &Key, end_s: u32) -> Result<(), Error> {
        self.note_due(number, u64::from(end_s) * 1_000_000)?;
        self.put(&keys::timed(number, Part::Expiration, end_s.into(), key), &[])
    }

    /// Changes the recorded end of a message.
    pub(crate) fn move_expiration(&mut self, number: u64, key: &Key, from_s: u32, to_s: u32) -> Result<(), Error> {
        if from_s == to_s {
            return Ok(());
        }
        self.remove_key(&keys::timed(number, Part::Expiration, from_s.into(), key))?;
        self.note_expiration(number, key, to_s)
    }
}

impl WriteTransaction<'_> {
    /// Stores a row of the registry until `end_us`, with which its value must begin.
    pub(crate) fn put_registry_until(&mut self, end_us: u64, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if let Some(before_us) = self.remove_registry(key)?.and_then(|before| kept_until(&before)) {
            self.remove_registry(&keys::ending(keys::EXPIRIES, before_us, key))?;
        }
        self.put_registry(key, value)?;
        self.put_registry(&keys::ending(keys::EXPIRIES, end_us, key), &[])
    }

    /// Writes the changed counts and tenants of a fair queue.
    fn write_fair(&mut self, number: u64, fair: FairCache) -> Result<(), Error> {
        self.write_blocks(number, fair.blocks)?;
        if let Some(tenants) = &fair.tenants {
            self.put(&keys::part_prefix(number, Part::Tenants), &tenants.encode())?;
        }
        Ok(())
    }

    /// Writes the changed blocks, and removes passed entries of shards that have enough of them.
    fn write_blocks(&mut self, number: u64, blocks: BTreeMap<u16, Cached<Block>>) -> Result<(), Error> {
        for (at, Cached { value: mut block, .. }) in blocks.into_iter().filter(|(_, block)| block.is_changed) {
            for (shard, shard_counts) in
                (at * BLOCK_SHARDS..).zip(&mut block.0).filter(|(_, shard_counts)| shard_counts.needs_cleanup())
            {
                self.remove_passed_range(number, shard, &shard_counts.passed_to)?;
                shard_counts.reset_passed();
            }
            let key = keys::shard(number, Part::Shard, at, &[]);
            if block == Block::default() {
                self.remove_key(&key)?;
            } else {
                self.put(&key, &block.encode())?;
            }
        }
        Ok(())
    }

    pub(crate) fn remove_passed_range(&mut self, number: u64, shard: u16, passed_to: &Key) -> Result<(), Error> {
        let [from, to] = [&[][..], passed_to].map(|key| keys::shard(number, Part::Turn, shard, key));
        self.remove_range(&from, &to)
    }
}
