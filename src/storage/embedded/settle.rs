//! Applies what is due in a queue: releases claims that are over and delayed messages that are due, and removes messages
//! that have ended.
//!
//! The steps of a transaction share one budget, so that operations on many queues with much to apply do not keep the
//! others waiting: an operation whose queue has more to apply runs again behind those that came meanwhile.

use super::failure::damaged;
use super::keys::{self, Key, Part};
use super::leases::Lease;
use super::located::Located;
use super::state::Row;
use super::writing::Writing;
use crate::storage::Error;
use crate::storage::key::rank_of;

/// How many leases and messages the steps of one transaction release or remove, about.
pub(super) const SETTLED_PER_TRANSACTION: usize = 500;

impl Writing<'_> {
    /// Applies what is due, within the transaction's budget; true if there may be more of it.
    pub(super) fn settle(&mut self, row: &Row, now_us: u64) -> Result<bool, Error> {
        let number = row.number;
        self.keep_logical_time(number, now_us)?;
        if !self.state(number)?.may_be_unsettled(now_us) {
            return Ok(false);
        }
        let over = self.view.until(number, Part::Lease, now_us, self.settling_left())?;
        for (end_us, lease) in &over {
            if self.settling_left() == 0 {
                return Ok(true);
            }
            let released = self.release(number, Lease::decode(lease)?, *end_us)?;
            self.count_settled(1 + released);
        }
        let ended = self.view.until(number, Part::Expiration, now_us / 1_000_000, self.settling_left())?;
        for (end_s, key) in &ended {
            let key: Key = key.as_slice().try_into().map_err(|_| damaged("the end of a message"))?;
            self.take(&keys::timed(number, Part::Expiration, *end_s, &key))?;
            let state = self.state(number)?;
            if let Some(located) = self.view.located(number, &state, &key)? {
                self.remove_but_its_expiration(number, &located)?;
            }
        }
        self.count_settled(ended.len());
        self.release_delayed(row, now_us)?;
        if self.settling_left() == 0 {
            return Ok(true);
        }
        let state = self.state(number)?;
        let due = self.view.first_due(number, &state)?.first();
        self.put_off(number, due);
        Ok(false)
    }

    /// Releases delayed messages that are due.
    fn release_delayed(&mut self, row: &Row, now_us: u64) -> Result<(), Error> {
        let number = row.number;
        let state = self.state(number)?;
        if state.delayed == 0 {
            return Ok(());
        }
        let logical_us = state.logical_time(now_us);
        let mut due = Vec::new();
        for located in self.view.entries(number, Part::Delayed, 0)?.take(self.settling_left()) {
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
            self.count(number, |state| state.last = state.last.max(last))?;
        }
        self.count_settled(due.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::storage::embedded::EmbeddedStore;
    use crate::storage::embedded::check::tests::{post, queue};
    use crate::storage::embedded::writer::Step;

    #[tokio::test]
    async fn the_steps_of_a_transaction_share_one_budget() {
        const POSTED: usize = SETTLED_PER_TRANSACTION * 3;
        let store = EmbeddedStore::in_memory().unwrap();
        let queues = [queue(&store, "a", Value::Null).await, queue(&store, "b", Value::Null).await];
        for queue in &queues {
            post(&store, queue, POSTED, 1).await;
        }

        let left = store.write(0, move |store| {
            let mut left = 0;
            for queue in &queues {
                let row = store.row(queue)?.expect("it is there");
                let later_us = store.now_us(queue) + 1_000_000_000;
                assert!(store.settle(&row, later_us)?);
                left += store.state(row.number)?.total;
            }
            Ok(Step::Done(left))
        });

        assert_eq!(left.await.unwrap(), (2 * POSTED - SETTLED_PER_TRANSACTION) as u64);
    }
}
