//! Lists live claims in the order of their fences.

use crate::domain::{ClaimId, ClaimSummary, Fence};
use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::engine::tables::Table;
use crate::storage::embedded::rows::keys::{self, Part};
use crate::storage::embedded::rows::lease::Lease;
use crate::storage::embedded::transaction::read::View;
use crate::storage::{Error, LISTED_MESSAGES_MAX};

impl<T: Table> View<T> {
    /// Returns the next live claims after this fence. There are fewer than `limit` if they have many
    /// messages.
    pub(crate) fn claims_after(
        &self,
        number: u64,
        after: Fence,
        limit: usize,
        now_us: u64,
    ) -> Result<Vec<ClaimSummary>, Error> {
        let from = keys::timed(number, Part::Fence, after.0.saturating_add(1), &[]);
        let to = keys::prefix_end(&keys::part_prefix(number, Part::Fence));
        let (mut claims, mut counted) = (Vec::new(), 0);
        for entry in self.contents.range::<&[u8]>(&*from..&*to)?.take(limit) {
            let (key, _) = entry?;
            let (_fence, id) = keys::time_and_rest(key.value()).ok_or_else(|| damaged("a fence"))?;
            let id = ClaimId::from_bytes(id.try_into().map_err(|_| damaged("a fence"))?);
            let row = self.claim(number, id)?.ok_or_else(|| damaged("a claim"))?;
            counted += row.keys.len();
            if counted > LISTED_MESSAGES_MAX && !claims.is_empty() {
                break;
            }
            let message_count = self.held_messages(number, Lease::Claim(id), &row.keys)?.len() as u64;
            let age_s = now_us.saturating_sub(row.since_us) / 1_000_000;
            claims.push(ClaimSummary {
                id,
                client: row.client,
                ttl_s: row.ttl_s,
                age_s,
                fence: row.fence,
                message_count,
            });
        }
        Ok(claims)
    }
}

/// Returns the key that lists a claim.
pub(super) fn fence_key(number: u64, fence: Fence, id: ClaimId) -> Vec<u8> {
    keys::timed(number, Part::Fence, fence.0, id.as_bytes())
}
