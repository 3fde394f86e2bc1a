//! Dead letters: messages that were given out as often as their queue allows go to another queue. Both are in one
//! file, so they go in the step that would have given them out.

use std::collections::HashMap;
use std::sync::Arc;

use super::failure::damaged;
use super::holds::whole_seconds;
use super::places::Found;
use super::posting::NewRecord;
use super::state::{Letters, Row};
use super::writing::Writing;
use crate::domain::client::Poster;
use crate::domain::message::Nonce;
use crate::domain::{Lot, Metadata, Origin, QueueId, Tenant};
use crate::storage::key::{id_of, nonce_bytes};
use crate::storage::{Error, record};

impl Writing<'_> {
    /// Of the messages that are to be given out, those that may be; the others are sent away.
    pub(super) fn worth_giving_out(
        &mut self,
        queue: &QueueId,
        row: &Row,
        free: Vec<Found>,
        now_us: u64,
    ) -> Result<Vec<Found>, Error> {
        let Some(letters) = &row.policy.letters else {
            return Ok(free);
        };
        let count = |found: &Found| found.place.hold.map_or(0, |hold| hold.count);
        let (worth, dead): (Vec<_>, _) = free.into_iter().partition(|found| count(found) < letters.count_max);
        if !dead.is_empty() {
            self.send(queue, row.number, letters, &dead, now_us)?;
        }
        Ok(worth)
    }

    fn send(
        &mut self,
        source: &QueueId,
        number: u64,
        letters: &Letters,
        dead: &[Found],
        now_us: u64,
    ) -> Result<(), Error> {
        let target = QueueId::new(source.project().clone(), letters.target.clone())
            .map_err(|error| Error::Corrupt(format!("a letter of {source}: {error}")))?;
        self.create(&target, &Metadata::default())?;
        let row = self.row(&target)?.ok_or_else(|| damaged("a queue"))?;
        let target_now_us = self.now_us(&target);
        if self.is_fair(&row)? {
            // What it holds decides where they go. What one step leaves unsettled must not keep the claim waiting.
            self.settle(&row, target_now_us)?;
        }
        let mut lots: HashMap<Poster, Arc<Lot>> = HashMap::new();
        let mut records = Vec::with_capacity(dead.len());
        for found in dead {
            let mut hold = found.hold()?;
            if letters.ttl_s > 0 {
                hold.ttl_s = letters.ttl_s;
                hold.end_s = whole_seconds(now_us) + u64::from(letters.ttl_s);
            }
            let id = id_of(source, &found.place.key)?;
            let lot = match row.policy.sharding {
                Some(sharding) => {
                    let poster = record::poster(&found.record)?;
                    let draw = || Arc::new(sharding.draw(&Tenant::of_poster(poster)));
                    Some(lots.entry(poster).or_insert_with(draw).clone())
                }
                None => None,
            };
            let origin = Origin { queue: source.name().clone(), id, claim_count: hold.count };
            records.push(NewRecord {
                nonce: nonce_bytes(Nonce::random()),
                delay_s: 0,
                record: record::letter(&found.record, &origin)?.into(),
                end_s: hold.end_s,
                hold: Some(hold),
                lot,
            });
            self.remove(number, &found.place)?;
        }
        self.post(&row, target_now_us, &records)?;
        Ok(())
    }
}
