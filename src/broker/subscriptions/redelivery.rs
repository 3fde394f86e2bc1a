//! Requests to deliver messages again.

use super::change::{Changed, add_request, check_confirmed};
use super::lookup::check_since;
use crate::auth::Caller;
use crate::broker::access::Access;
use crate::broker::messages::Since;
use crate::broker::range::own_ids;
use crate::broker::{Action, Broker, Error};
use sukkal_domain::{DeliveryRequest, MessageId, QueueId, Rank, SubscriptionStatus, Warning, WithWarnings};

/// Maximum number of ids in a request.
const IDS_MAX: u32 = 100;
/// Number of messages that are read at once to see whether they exist. It bounds the memory that
/// their bodies need.
const COUNTED_AT_ONCE: usize = 4;

/// The messages that are to be delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RedeliveryRequest {
    /// All messages from this time on.
    Since(Since),
    /// The messages with these ids, as far as they exist.
    Ids(Vec<String>),
}

impl Broker {
    /// Asks the deliverer to deliver messages again. Returns the status of the subscription. If it
    /// is not active, they wait until it is. Fails if it must be confirmed first, because a
    /// confirmation skips them. Warns if some of the messages do not exist.
    pub async fn redeliver(
        &self,
        caller: &Caller,
        queue: QueueId,
        id: &str,
        request: RedeliveryRequest,
    ) -> Result<WithWarnings<SubscriptionStatus>, Error> {
        let access = self.store.authorize(caller, Action::Redeliver, &queue)?;
        if let RedeliveryRequest::Since(since) = request {
            check_since(since)?;
        }
        let mut ids = Vec::new();
        let request = match request {
            RedeliveryRequest::Since(Since::Time(micros)) => {
                let position = Rank::new(micros).unwrap_or(Rank::MAX).previous();
                let end = access.admit().await?.queue_status(&queue).await?.position();
                // A time in the future skips messages, as `now` does.
                if position > end {
                    DeliveryRequest::Seek(position.micros())
                } else {
                    DeliveryRequest::Rewind(position.micros())
                }
            }
            RedeliveryRequest::Since(Since::Now) => {
                DeliveryRequest::Seek(access.admit().await?.queue_status(&queue).await?.position().micros())
            }
            RedeliveryRequest::Ids(texts) => {
                ids = own_ids(&queue, &texts, IDS_MAX)?;
                DeliveryRequest::redeliver(&ids)
            }
        };
        let change = move |current: &SubscriptionStatus| {
            check_confirmed(current)?;
            let mut settings = current.subscription.settings.clone();
            add_request(&mut settings, &current.progress, request.clone())?;
            Ok(Changed::settings(settings))
        };
        let value = self.change_subscription(&access, queue.clone(), id, change).await?;
        // The redelivery has begun, so a failure here is none of the request.
        let missing = count_missing(&access, &queue, &ids).await.unwrap_or(0);
        let warning = (missing > 0).then_some(Warning::MissingMessages(missing));
        Ok(WithWarnings { value, warnings: warning.into_iter().collect() })
    }
}

/// Returns how many of the messages do not exist.
async fn count_missing(access: &Access, queue: &QueueId, ids: &[MessageId]) -> Result<usize, Error> {
    let mut missing = ids.len();
    for few in ids.chunks(COUNTED_AT_ONCE) {
        missing -= access.admit().await?.get_messages(queue, few, false).await?.len();
    }
    Ok(missing)
}
