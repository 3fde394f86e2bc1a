//! Lists messages of a feed in steps, so that a long feed does not block other tasks.

use tokio::task::yield_now;

use crate::embedded::engine::tables::Table;
use crate::embedded::rows::keys::Part;
use crate::embedded::rows::located::Merged;
use crate::embedded::rows::state::QueueState;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::transaction::budget::RecordBudget;
use crate::embedded::transaction::read::View;
use crate::key::rank_of;
use crate::{Error, Listing, Page};
use sukkal_domain::{ClientId, Order, QueueId, Rank};

/// Maximum number of entries examined in one step. Between steps, other tasks run.
pub(crate) const EXAMINED_PER_STEP: usize = 1_000;

pub(crate) async fn list_messages(store: &EmbeddedStore, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
    let mut listing = listing.clone();
    loop {
        let (queue_id, step) = (queue.clone(), listing.clone());
        let page = store.read_up_to_date(queue, move |view, row, state, now_us| {
            // In a queue that no longer delays messages, the delayed ones that are left are not
            // listed.
            let delayed = step.scope.delayed && row.policy.delays;
            let (page, last) = view.list_messages(&queue_id, (row.number, state), &step, delayed, now_us)?;
            Ok((Page { delays: row.policy.delays, is_fair: state.is_fair(&row.policy), ..page }, last))
        });
        let Some((page, examined_to)) = page.await? else {
            return Ok(Page { reached: listing.after, ..Page::default() });
        };
        if page.is_last || !page.messages.is_empty() {
            let last = page.messages.last().map(|message| message.id.rank());
            return Ok(Page { reached: last.or(examined_to), ..page });
        }
        listing.after = examined_to;
        yield_now().await;
    }
}

impl<T: Table> View<T> {
    /// Returns the page that one step finds, and the position that the step reached.
    pub(crate) fn list_messages(
        &self,
        queue: &QueueId,
        (number, state): (u64, &QueueState),
        listing: &Listing,
        delayed: bool,
        now_us: u64,
    ) -> Result<(Page, Option<Rank>), Error> {
        let not_from = listing.not_from.as_ref().map(ClientId::poster);
        let entries = |set| match listing.order {
            Order::OldestFirst => self.entries(number, set, listing.after.map_or(0, |after| after.micros() + 1)),
            Order::NewestFirst => self.entries_before(number, set, listing.after.map(Rank::micros)),
        };
        let scope = [(Part::Ready, true), (Part::InFlight, listing.scope.claimed), (Part::Delayed, delayed)];
        let wanted = scope.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(set, _)| set);
        let (mut listed, mut budget, mut is_last, mut examined_to) =
            (Vec::new(), RecordBudget::default(), true, listing.after);
        let feed = Merged::new(wanted.map(entries).collect::<Result<_, _>>()?, listing.order)?;
        for (examined, located) in feed.enumerate() {
            let located = located?;
            if listed.len() == listing.limit || examined >= EXAMINED_PER_STEP.max(listing.limit) {
                is_last = false;
                break;
            }
            if not_from != Some(located.entry.poster) {
                // A message that does not fit starts the next page. No message that follows it may
                // come before it.
                if !budget.try_add(&located) {
                    is_last = false;
                    break;
                }
                listed.push(located);
            }
            examined_to = Rank::new(rank_of(located.key()));
        }
        let messages = if listing.with_states {
            self.messages_with_states(queue, number, state, &listed, now_us)?
        } else {
            self.messages(queue, number, listed, now_us)?
        };
        Ok((Page { messages, delays: delayed, is_fair: false, is_last, reached: None }, examined_to))
    }
}
