//! Applies the due changes of a queue: releases the messages of ended leases and delayed messages
//! that are due, and removes messages and subscriptions that have ended.
//!
//! The operations of a transaction share one budget, so that many due changes in many queues do not
//! delay other operations. An operation whose queue has more due changes runs again, after the
//! operations that arrived meanwhile.

use crate::Error;
use crate::embedded::engine::error::damaged;
use crate::embedded::rows::keys::{self, Key, Part};
use crate::embedded::rows::lease::Lease;
use crate::embedded::rows::located::Located;
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::transaction::write::WriteTransaction;
use crate::key::rank_of;

impl WriteTransaction<'_> {
    /// Applies due changes within the transaction's budget. Returns whether there may be more.
    pub(super) fn apply_due_changes(&mut self, row: &QueueRow, now_us: u64) -> Result<bool, Error> {
        let number = row.number;
        self.update_logical_time(number, now_us)?;
        if !self.state(number)?.may_have_due_changes(now_us) {
            return Ok(false);
        }
        let over = self.view.until(number, Part::Lease, now_us, self.due_changes_left())?;
        for (end_us, lease) in &over {
            if self.due_changes_left() == 0 {
                return Ok(true);
            }
            let released = self.release(number, Lease::decode(lease)?, *end_us)?;
            self.count_due_changes(1 + released);
        }
        let ended = self.view.until(number, Part::Expiration, now_us / 1_000_000, self.due_changes_left())?;
        for (end_s, key) in &ended {
            let key: Key = key.as_slice().try_into().map_err(|_| damaged("the expiration of a message"))?;
            self.remove_key(&keys::timed(number, Part::Expiration, *end_s, &key))?;
            let state = self.state(number)?;
            if let Some(located) = self.view.located(number, &state, &key)? {
                self.remove_except_expiration(number, &located)?;
                self.change_state(number, |state| state.expired += 1)?;
                self.processed.expired += 1;
            }
        }
        self.count_due_changes(ended.len());
        self.release_delayed(row, now_us)?;
        self.remove_expired_subscriptions(number, now_us)?;
        if self.due_changes_left() == 0 {
            return Ok(true);
        }
        let state = self.state(number)?;
        let due = self.view.first_due(number, &state)?.first();
        self.set_next_due(number, due);
        Ok(false)
    }

    /// Releases delayed messages that are due.
    fn release_delayed(&mut self, row: &QueueRow, now_us: u64) -> Result<(), Error> {
        let number = row.number;
        let state = self.state(number)?;
        if state.delayed == 0 {
            return Ok(());
        }
        let logical_us = state.logical_time(now_us);
        let mut due = Vec::new();
        for located in self.view.entries(number, Part::Delayed, 0)?.take(self.due_changes_left()) {
            let located = located?;
            if rank_of(located.key()) > logical_us {
                break;
            }
            due.push(located);
        }
        for located in &due {
            let shard = self.shard_at(row, rank_of(located.key()), located.shard)?;
            self.move_to(number, located, &Located { set: Part::Ready, shard, ..*located })?;
        }
        if let Some(last) = due.last().map(|located| rank_of(located.key())) {
            self.change_state(number, |state| state.last = state.last.max(last))?;
        }
        self.count_due_changes(due.len());
        Ok(())
    }
}
