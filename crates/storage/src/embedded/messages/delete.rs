//! Deletes messages, with or without a claim.

use std::collections::HashSet;

use crate::embedded::rows::keys::own_keys;
use crate::embedded::rows::located::Located;
use crate::embedded::store::EmbeddedStore;
use crate::key::key_of;
use crate::{DeleteOutcome, Error};
use sukkal_domain::{ClaimId, MessageId, QueueId};

pub(crate) async fn delete_message(
    store: &EmbeddedStore,
    queue: &QueueId,
    id: MessageId,
    claim: Option<ClaimId>,
) -> Result<DeleteOutcome, Error> {
    if !id.is_of(queue) {
        return Ok(DeleteOutcome::Done);
    }
    let key = key_of(id);
    store
        .write_up_to_date(queue, DeleteOutcome::Done, move |transaction, row, _now_us| {
            let state = transaction.state(row.number)?;
            let Some(located) = transaction.view.located(row.number, &state, &key)? else {
                return Ok(DeleteOutcome::Done);
            };
            match (claim, located.entry.claim) {
                (None, Some(_)) => Ok(DeleteOutcome::ClaimRequired),
                (Some(_), None) => Ok(DeleteOutcome::NotClaimed),
                (Some(claim), Some(holder)) if claim != holder => {
                    let is_live = transaction.view.claim(row.number, claim)?.is_some();
                    Ok(if is_live { DeleteOutcome::ClaimedByAnother } else { DeleteOutcome::UnknownClaim })
                }
                (None, None) | (Some(_), Some(_)) => {
                    transaction.remove(row.number, &located)?;
                    transaction.processed.deleted += 1;
                    Ok(DeleteOutcome::Done)
                }
            }
        })
        .await
}

pub(crate) async fn delete_messages(store: &EmbeddedStore, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
    let keys = own_keys(queue, ids);
    store.write_up_to_date(queue, (), move |transaction, row, _now_us| transaction.remove_all(row.number, &keys)).await
}

pub(crate) async fn delete_claimed(
    store: &EmbeddedStore,
    queue: &QueueId,
    ids: &[MessageId],
    claims: &[ClaimId],
) -> Result<DeleteOutcome, Error> {
    let keys = own_keys(queue, ids);
    let claims: HashSet<ClaimId> = claims.iter().copied().collect();
    store
        .write_up_to_date(queue, DeleteOutcome::Done, move |transaction, row, _now_us| {
            let state = transaction.state(row.number)?;
            let located = keys
                .iter()
                .map(|key| transaction.view.located(row.number, &state, key))
                .collect::<Result<Vec<_>, _>>()?;
            let is_allowed = |located: &Located| located.entry.claim.is_some_and(|claim| claims.contains(&claim));
            if !located.iter().flatten().all(is_allowed) {
                return Ok(DeleteOutcome::NotClaimed);
            }
            transaction.remove_all(row.number, &keys)?;
            Ok(DeleteOutcome::Done)
        })
        .await
}
