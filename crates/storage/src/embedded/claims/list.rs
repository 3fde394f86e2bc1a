//! Lists live claims in the order of their ids.

use std::ops::Bound;

use crate::embedded::engine::error::damaged;
use crate::embedded::engine::tables::Table;
use crate::embedded::rows::claim::ClaimRow;
use crate::embedded::rows::keys::{self, Part};
use crate::embedded::rows::lease::Lease;
use crate::embedded::transaction::read::View;
use crate::{Error, LISTED_MESSAGES_MAX};
use sukkal_domain::{ClaimId, ClaimSummary};

impl<T: Table> View<T> {
    /// Returns the next live claims after this id. There are fewer than `limit` if they have many
    /// messages.
    pub(crate) fn claims_after(
        &self,
        number: u64,
        after: Option<ClaimId>,
        limit: usize,
        now_us: u64,
    ) -> Result<Vec<ClaimSummary>, Error> {
        let prefix = keys::part_prefix(number, Part::Claim);
        let (from, to) =
            (after.map(|after| keys::content(number, Part::Claim, after.as_bytes())), keys::prefix_end(&prefix));
        let from = from.as_deref().map_or(Bound::Included(&*prefix), Bound::Excluded);
        let (mut claims, mut counted) = (Vec::new(), 0);
        for entry in self.contents.range::<&[u8]>((from, Bound::Excluded(&*to)))?.take(limit) {
            let (key, row) = entry?;
            let id = keys::rest(key.value()).try_into().map_err(|_| damaged("the id of a claim"))?;
            let (id, row) = (ClaimId::from_bytes(id), ClaimRow::decode(row.value())?);
            counted += row.keys.len();
            if counted > LISTED_MESSAGES_MAX && !claims.is_empty() {
                break;
            }
            let message_count = match row.held {
                Some(held) => held.into(),
                None => self.held_messages(number, Lease::Claim(id), &row.keys)?.len() as u64,
            };
            let age_s = now_us.saturating_sub(row.since_us) / 1_000_000;
            let ClaimRow { client, ttl_s, fence, .. } = row;
            claims.push(ClaimSummary { id, client, ttl_s, age_s, fence, message_count });
        }
        Ok(claims)
    }
}
