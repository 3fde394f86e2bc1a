//! Deleting messages by their ids.

use crate::auth::Caller;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{ClaimId, MessageId, QueueId, Warning, WithWarnings};
use sukkal_storage::DeleteOutcome;

impl Broker {
    /// Deletes the message with this id, if it exists. Deleting a claimed message requires its
    /// claim id; deleting one that is not claimed requires that no claim id is given. Warns if the
    /// id cannot be that of a message.
    pub async fn delete_message(
        &self,
        caller: &Caller,
        queue: QueueId,
        id: &str,
        claim: Option<&str>,
    ) -> Result<WithWarnings<()>, Error> {
        let store = self.store.authorize(caller, Action::DeleteMessage, &queue)?.admit().await?;
        let Some(id) = MessageId::parse(id, &queue) else {
            store.ping().await?;
            return Ok(WithWarnings { value: (), warnings: vec![Warning::InvalidMessageId] });
        };
        let claim = match claim.map(ClaimId::parse) {
            // No claim has this id, not even one of a message that is not claimed.
            Some(None) => {
                let exists = !store.get_messages(&queue, &[id], false).await?.is_empty();
                return if exists { Err(Error::UnknownClaim) } else { Ok(WithWarnings::none(())) };
            }
            claim => claim.flatten(),
        };
        let deletion = self.run_to_completion(async move { store.delete_message(&queue, id, claim).await }).await?;
        outcome(deletion).map(WithWarnings::none)
    }

    /// Deletes the messages with these ids, as far as they exist. Warns about ids that cannot be
    /// those of messages.
    ///
    /// The claims are ignored unless the operator has set `message_delete_with_claim_id`. Then each
    /// message must be under one of them, or nothing is deleted. Messages of topics have no claims.
    pub async fn delete_messages(
        &self,
        caller: &Caller,
        queue: QueueId,
        ids: &[String],
        claims: &[String],
    ) -> Result<WithWarnings<()>, Error> {
        let access = self.store.authorize(caller, Action::DeleteMessages, &queue)?;
        let id_count = ids.len();
        let ids = self.parse_ids(&queue, ids)?;
        let is_queue = queue.name().topic().is_none();
        let requires_claims = self.limits.message_delete_with_claim_id && is_queue;
        if requires_claims && claims.is_empty() {
            return Err(Error::Limit(
                "this server deletes \"ids\" only with \"claim_ids\"; name the claims of the messages".to_owned(),
            ));
        }
        let invalid = (ids.len() < id_count).then_some(Warning::InvalidMessageId);
        let ignored = (is_queue && !requires_claims && !claims.is_empty()).then_some(Warning::ClaimIdsIgnored);
        let store = access.admit().await?;
        if ids.is_empty() {
            store.ping().await?;
        } else if requires_claims {
            let claims: Vec<ClaimId> = claims.iter().filter_map(|claim| ClaimId::parse(claim)).collect();
            outcome(self.run_to_completion(async move { store.delete_claimed(&queue, &ids, &claims).await }).await?)?;
        } else {
            self.run_to_completion(async move { store.delete_messages(&queue, &ids).await }).await?;
        }
        Ok(WithWarnings { value: (), warnings: invalid.into_iter().chain(ignored).collect() })
    }
}

fn outcome(deletion: DeleteOutcome) -> Result<(), Error> {
    match deletion {
        DeleteOutcome::Done => Ok(()),
        DeleteOutcome::ClaimRequired | DeleteOutcome::ClaimedByAnother => Err(Error::Claimed),
        DeleteOutcome::NotClaimed => Err(Error::NotClaimed),
        DeleteOutcome::UnknownClaim => Err(Error::UnknownClaim),
    }
}
