//! Counts the messages of a queue, in total and by shard.

use crate::Error;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::Part;
use crate::embedded::rows::located::{Located, Merged};
use crate::embedded::rows::queue::QueueRow;
use crate::embedded::rows::shard_counts::SetCounts;
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::read::View;
use crate::key::rank_of;
use sukkal_domain::{Details, Holding, Order, QueueId, Shard, Stats};

pub(crate) async fn get_stats(store: &EmbeddedStore, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
    let queue_id = queue.clone();
    let absent = || Stats { details: detailed.then(Details::default), ..Stats::default() };
    let stats = store.read_up_to_date(queue, move |view, row, state, now_us| {
        let number = row.number;
        let show = |located: Option<Located>| Ok::<_, Error>(view.messages(&queue_id, number, located, now_us)?.pop());
        Ok(Stats {
            exists: true,
            total: state.total,
            claimed: state.in_flight,
            oldest: show(view.first_in(number, Order::OldestFirst)?)?,
            newest: show(view.first_in(number, Order::NewestFirst)?)?,
            details: detailed.then(|| view.details(row, state, now_us)).transpose()?,
        })
    });
    Ok(stats.await?.unwrap_or_else(absent))
}

impl<T: Table> View<T> {
    /// Returns the counts of each shard, and of the messages without a shard.
    pub(crate) fn details(&self, row: &QueueRow, state: &QueueState, now_us: u64) -> Result<Details, Error> {
        let is_fair = state.is_fair(&row.policy);
        let mut details = Details::default();
        let mut rest =
            SetCounts { available: state.in_set(Part::Ready), delayed: state.delayed, in_flight: state.in_flight };
        let boundary = if is_fair { state.boundary } else { u64::MAX };
        let mut oldest = self.first_unsharded(row.number, 0, boundary)?;
        for (position, shard_counts) in self.all_shard_counts(row.number)? {
            let first = self.shard_entries(row.number, position, shard_counts)?.next().transpose()?;
            match Shard::new(position) {
                Some(shard) => {
                    details.shards.push((shard, holding(shard_counts.counts, first, now_us)));
                    rest = rest.minus(shard_counts.counts);
                }
                None => oldest = oldest.or(first),
            }
        }
        if is_fair {
            details.tenants = self.tenants(row.number)?.shares(now_us);
        }
        details.unsharded = holding(rest, oldest, now_us);
        Ok(details)
    }

    /// Returns the first message of all three sets in this order.
    fn first_in(&self, number: u64, order: Order) -> Result<Option<Located>, Error> {
        Merged::new(self.all_located(number)?, order)?.next().transpose()
    }
}

/// Converts counts for the caller. `oldest` is the oldest available message among them.
fn holding(counts: SetCounts, oldest: Option<Located>, now_us: u64) -> Holding {
    Holding {
        available: counts.available,
        delayed: counts.delayed,
        claimed: counts.in_flight,
        oldest_age_s: oldest.map(|located| now_us.saturating_sub(rank_of(located.key())) / 1_000_000),
    }
}
