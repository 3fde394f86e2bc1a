//! What follows from outcomes outside the deliveries: dead letters, and subscriptions that are
//! paused or disabled.

use serde_json::json;
use tracing::{info, warn};

use super::subscription::Delivery;
use super::target::Target;
use crate::broker::Error;
use crate::broker::deliveries::QueueDeliveries;
use sukkal_domain::{Body, QueueName, Revision, SubscriptionId, SubscriptionSettings, SubscriptionState};

/// Posts a message whose retries are used up to the dead-letter queue of its subscription, if it
/// has one and its author may still post. It may be repeated. What push itself has posted is not
/// posted again: otherwise, messages would multiply in queues that are each other's dead-letter
/// queues.
///
/// # Errors
///
/// Why it could not be posted.
pub(super) async fn post_dead_letter(
    deliveries: &QueueDeliveries,
    id: SubscriptionId,
    target: &Target,
    delivery: &Delivery,
) -> Result<(), Error> {
    let Delivery { message, due_us, begins_us, .. } = delivery;
    match &target.options.dead_letter_queue {
        Some(to) if !deliveries.is_follow_up(message) && may_post(deliveries, id, target, to) => {
            let key = format!("{id}/{}/{due_us}", message.id);
            deliveries.post_dead_letter(to, &key, message, begins_us / 1_000_000).await
        }
        _ => Ok(()),
    }
}

/// Returns whether the policy still allows the author of the options to post. Logs it if not.
fn may_post(deliveries: &QueueDeliveries, id: SubscriptionId, target: &Target, to: &QueueName) -> bool {
    let (author, queue) = (target.author.as_ref(), deliveries.queue());
    let is_allowed = deliveries.may_post_for(author);
    if !is_allowed {
        let user = author.and_then(|author| author.user.as_deref());
        warn!(%queue, subscription = %id, %to, user, "the policy does not allow the author of a subscription to post");
    }
    is_allowed
}

/// Pauses or disables an active subscription. A message tells its owner that it is disabled, if the
/// options name a queue for that and their author may still post. It may be repeated.
///
/// # Errors
///
/// Errors of the store.
pub(super) async fn stop(
    deliveries: &QueueDeliveries,
    id: SubscriptionId,
    revision: Revision,
    target: &Target,
    state: &SubscriptionState,
) -> Result<(), Error> {
    let queue = deliveries.queue();
    match state {
        SubscriptionState::Active => {}
        SubscriptionState::Paused(reason) => info!(%queue, subscription = %id, reason, "a subscription is paused"),
        SubscriptionState::Disabled(reason) => info!(%queue, subscription = %id, reason, "a subscription is disabled"),
    }
    if let (SubscriptionState::Disabled(reason), Some(to)) = (state, &target.options.notify_queue)
        && may_post(deliveries, id, target, to)
    {
        let mut notice = json!({
            "Message_Type": "SubscriptionDisabled",
            "queue_name": queue.name().plain(),
            "subscription_id": id.to_string(),
            "subscriber": target.text,
            "reason": reason,
        });
        if let Some(topic) = queue.name().topic() {
            notice["topic_name"] = json!(topic);
        }
        let body = rmp_serde::to_vec(&notice).expect("JSON always has a MessagePack form");
        let key = format!("{id}/disabled/{}", revision.0);
        // The deliveries of this queue do not wait for another one.
        let posted = deliveries.post(to, &key, deliveries.max_message_ttl_s(), Body::from_msgpack(body.into())).await;
        if let Err(error) = posted {
            warn!(%queue, subscription = %id, %to, %error, "cannot tell that a subscription is disabled");
        }
    }
    // One that its owner has paused stays as it is.
    let set_state = |settings: &mut SubscriptionSettings| {
        if settings.state == SubscriptionState::Active {
            settings.state = state.clone();
        }
    };
    deliveries.change(id, set_state).await
}
