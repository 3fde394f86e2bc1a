//! Adds, moves and removes a message together with all rows and counts that belong to it.

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::located::Located;
use crate::embedded::rows::state::QueueState;
use crate::embedded::transaction::write::WriteTransaction;
use crate::key::rank_of;

impl WriteTransaction<'_> {
    /// Adds a new message to one of the three sets, and counts it as posted.
    pub(crate) fn add(&mut self, number: u64, located: &Located, record: &[u8]) -> Result<(), Error> {
        let key = located.key();
        self.put(&keys::message(number, Part::Message, key), record)?;
        self.put_entry(number, located)?;
        self.enter_shard(number, located)?;
        self.note_expiration(number, key, located.entry.current_end_s())?;
        if located.set == Part::Delayed {
            let offset = self.state(number)?.offset;
            self.note_due(number, rank_of(key).saturating_sub(offset))?;
        }
        self.notify(number, u64::from(located.set == Part::Ready));
        self.change_state(number, |state| {
            state.count(located.entry.size);
            state.posted += 1;
            enter(state, located);
        })
    }

    /// Moves a message to another of the three sets.
    pub(crate) fn move_to(&mut self, number: u64, from: &Located, to: &Located) -> Result<(), Error> {
        if !self.remove_key(&keys::message(number, from.set, from.key()))? {
            return Err(damaged("the entry of a message"));
        }
        self.leave_shard(number, from)?;
        self.put_entry(number, to)?;
        self.enter_shard(number, to)?;
        self.notify(number, u64::from(to.set == Part::Ready));
        if from.set == Part::InFlight && to.set == Part::Ready {
            self.notify_older(number, to.key());
        }
        self.change_state(number, |state| {
            enter(state, to);
            leave(state, from);
        })
    }

    /// Removes a message with all its rows.
    pub(crate) fn remove(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        self.remove_except_expiration(number, located)?;
        self.remove_key(&keys::timed(number, Part::Expiration, located.entry.current_end_s().into(), located.key()))?;
        Ok(())
    }

    /// Removes a message with all its rows but its expiration.
    pub(crate) fn remove_except_expiration(&mut self, number: u64, located: &Located) -> Result<(), Error> {
        self.remove_key(&keys::message(number, located.set, located.key()))?;
        if located.set == Part::InFlight {
            self.leave_lease(number, located)?;
        }
        self.leave_shard(number, located)?;
        if !self.remove_key(&keys::message(number, Part::Message, located.key()))? {
            return Err(damaged("a message"));
        }
        self.change_state(number, |state| {
            state.discount(located.entry.size);
            leave(state, located);
        })
    }

    /// Removes those of the messages that exist.
    pub(crate) fn remove_all(&mut self, number: u64, keys: &[Key]) -> Result<(), Error> {
        for key in keys {
            let state = self.state(number)?;
            if let Some(located) = self.view.located(number, &state, key)? {
                self.remove(number, &located)?;
                self.processed.deleted += 1;
            }
        }
        Ok(())
    }
}

fn enter(state: &mut QueueState, located: &Located) {
    state.sharded += u64::from(located.shard.is_some());
    match located.set {
        Part::InFlight => state.in_flight += 1,
        Part::Delayed => state.delayed += 1,
        _ => {}
    }
}

fn leave(state: &mut QueueState, located: &Located) {
    state.sharded = state.sharded.saturating_sub(u64::from(located.shard.is_some()));
    match located.set {
        Part::InFlight => state.in_flight = state.in_flight.saturating_sub(1),
        Part::Delayed => state.delayed = state.delayed.saturating_sub(1),
        _ => {}
    }
    if state.delayed == 0 {
        (state.offset, state.logical) = (0, 0);
    }
}
