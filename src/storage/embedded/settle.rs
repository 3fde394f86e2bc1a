//! Settling: releases claims that are over, lets in what is due, and removes messages that have ended.

use super::failure::damaged;
use super::holds::Lease;
use super::keys::{self, Key, Part};
use super::places::Place;
use super::state::Row;
use super::writing::Writing;
use crate::storage::Error;
use crate::storage::key::rank_of;

const SETTLED_LEASES_MAX: usize = 100;
const SETTLED_MESSAGES_MAX: usize = 500;

impl Writing<'_> {
    /// Settles some hundreds of messages at most; true if there may be more of them.
    pub(super) fn settle(&mut self, row: &Row, now_us: u64) -> Result<bool, Error> {
        let number = row.number;
        let state = self.state(number)?;
        if !state.may_be_unsettled(now_us) {
            return Ok(false);
        }
        let over = self.view.until(number, Part::Lease, now_us, SETTLED_LEASES_MAX)?;
        let mut released = 0;
        for (end_us, lease) in &over {
            released += self.release(number, Lease::decode(lease)?, *end_us)?;
            if released >= SETTLED_MESSAGES_MAX {
                return Ok(true);
            }
        }
        let ended = self.view.until(number, Part::End, now_us / 1_000_000, SETTLED_MESSAGES_MAX)?;
        for (end_s, key) in &ended {
            let key: Key = key.as_slice().try_into().map_err(|_| damaged("the end of a message"))?;
            self.take(&keys::timed(number, Part::End, *end_s, &key))?;
            let state = self.state(number)?;
            if let Some(place) = self.view.place(number, &state, &key)? {
                self.remove_but_its_end(number, &place)?;
            }
        }
        let more_let_in = self.let_in(row, now_us)?;
        if more_let_in || over.len() == SETTLED_LEASES_MAX || ended.len() == SETTLED_MESSAGES_MAX {
            return Ok(true);
        }
        let state = self.state(number)?;
        let due = self.view.first_due(number, &state)?.first();
        self.put_off(number, due);
        Ok(false)
    }

    /// Lets in delayed messages that are due. A rank that was passed was due once, whatever the clock says now,
    /// and what has a higher one may have been seen.
    fn let_in(&mut self, row: &Row, now_us: u64) -> Result<bool, Error> {
        let number = row.number;
        let state = self.state(number)?;
        if state.delayed == 0 {
            return Ok(false);
        }
        let until = now_us.max(state.last);
        let mut due = Vec::new();
        for place in self.view.places(number, Part::Delayed, 0)?.take(SETTLED_MESSAGES_MAX) {
            let place = place?;
            if rank_of(&place.key) > until {
                break;
            }
            due.push(place);
        }
        for place in &due {
            let shard = self.shard_at(row, rank_of(&place.key), place.shard)?;
            self.move_to(number, place, &Place { set: Part::Ready, shard, ..*place })?;
        }
        if let Some(last) = due.last().map(|place| rank_of(&place.key)) {
            self.count(number, |state| state.last = state.last.max(last))?;
        }
        Ok(due.len() == SETTLED_MESSAGES_MAX)
    }
}
