//! What follows from outcomes outside the deliveries: dead letters, and subscriptions that are paused
//! or disabled.

use serde_json::json;
use tracing::{info, warn};

use super::attempt::Target;
use super::subscription::FollowUp;
use crate::broker::Error;
use crate::broker::deliveries::QueueDeliveries;
use crate::domain::{Body, QueueName, Subscriber, SubscriptionId, SubscriptionSettings, SubscriptionState};

/// Carries out what an outcome requires. It may be repeated.
///
/// # Errors
///
/// Errors of the store that may be gone soon. Others are logged.
pub(super) async fn carry_out(
    deliveries: &QueueDeliveries,
    id: SubscriptionId,
    target: &Target,
    follow_up: &FollowUp,
) -> Result<(), Error> {
    match follow_up {
        FollowUp::GivenUp(message) => {
            let Some(to) = &target.options.dead_letter_queue else {
                return Ok(());
            };
            let key = format!("{id}/{}", message.id);
            post(deliveries, id, to, &key, Some(message.ttl_s), message.body.clone()).await
        }
        FollowUp::Pause(reason) => {
            info!(queue = %deliveries.queue(), subscription = %id, reason, "a subscription is paused");
            let state = SubscriptionState::Paused(Some(reason.clone()));
            deliveries.change(id, |settings| stop(settings, &state)).await
        }
        FollowUp::Disable(reason) => {
            info!(queue = %deliveries.queue(), subscription = %id, reason, "a subscription is disabled");
            let state = SubscriptionState::Disabled(reason.clone());
            deliveries.change(id, |settings| stop(settings, &state)).await?;
            let Some(to) = &target.options.notify_queue else {
                return Ok(());
            };
            let notice = json!({
                "Message_Type": "SubscriptionDisabled",
                "queue_name": deliveries.queue().name().as_str(),
                "subscription_id": id.to_string(),
                "subscriber": target.subscriber.as_ref().map_or("", Subscriber::as_str),
                "reason": reason,
            });
            let body = rmp_serde::to_vec(&notice).expect("JSON always has a MessagePack form");
            let key = format!("{id}/disabled/{}", super::attempt::unix_seconds() / 60);
            post(deliveries, id, to, &key, None, Body::from_msgpack(body.into())).await
        }
    }
}

/// Changes the state of an active subscription. One that its owner has paused stays as it is.
fn stop(settings: &mut SubscriptionSettings, state: &SubscriptionState) {
    if settings.state == SubscriptionState::Active {
        settings.state = state.clone();
    }
}

async fn post(
    deliveries: &QueueDeliveries,
    id: SubscriptionId,
    to: &QueueName,
    key: &str,
    ttl_s: Option<u32>,
    body: Body,
) -> Result<(), Error> {
    match deliveries.post(to, id, key, ttl_s, body).await {
        Err(Error::Store(error)) if error.is_transient() => Err(Error::Store(error)),
        Err(error) => {
            warn!(queue = %deliveries.queue(), subscription = %id, %to, %error, "cannot post a message of a subscription");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
