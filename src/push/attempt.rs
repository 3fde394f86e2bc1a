//! One attempt to notify a subscriber of a message.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{self, Poll};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::header::{HeaderName, HeaderValue};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::client::{Response, SendFailure};
use super::context::Context;
use super::subscription::{AttemptResult, Delivery, Outcome};
use super::target::Target;
use super::{follow_ups, notification};
use crate::broker::deliveries::QueueDeliveries;
use sukkal_domain::{Attempt, MailTo, Message, MessageId, Subscriber, SubscriptionId};
use sukkal_storage::ATTEMPT_DURATION_MAX;

/// The status that ends a subscription.
const GONE: u16 = 410;
/// The status of a subscriber that does not accept the token of a trust.
const UNAUTHORIZED: u16 = 401;
const AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");

/// An attempt that has ended. It has no outcome if it did not begin.
pub(super) struct Finished {
    pub(super) subscription: SubscriptionId,
    pub(super) delivery: Delivery,
    pub(super) outcome: Option<Outcome>,
}

/// Makes an attempt as soon as a connection is free. It begins only while no other process can have
/// the lease, which lasts until `lease_until`, and ends within [`ATTEMPT_DURATION_MAX`].
pub(super) async fn run(
    context: &Context,
    deliveries: &QueueDeliveries,
    target: &Target,
    id: SubscriptionId,
    delivery: &Delivery,
    mut lease_until: watch::Receiver<Instant>,
) -> Option<Outcome> {
    // Without a subscriber that may be called, the subscription is being paused.
    let subscriber = target.subscriber.as_ref().ok()?;
    // With its own time limit, so that it takes no time of a connection or of the lease.
    let token = context.stopping.run_until_cancelled(trust_token(context, target, subscriber)).await?;
    let permit = target.retired.run_until_cancelled(context.client.permit(deliveries.queue().project(), subscriber));
    let permit = context.stopping.run_until_cancelled(permit).await??;
    let mut began = Instant::now();
    while *lease_until.borrow_and_update() <= began {
        lease_until.changed().await.ok()?;
        began = Instant::now();
    }
    if target.retired.is_cancelled() {
        return None;
    }
    // An opened body takes memory, and many attempts may wait for a connection.
    let message = deliveries.open(&delivery.message).ok()?;
    let _in_flight = context.metrics.push().begin_attempt();
    let at_s = notification::unix_seconds();
    let body = notification::body(deliveries.queue().name(), id, &message, &target.options);
    let send = async {
        let token = token.map_err(SendFailure::Refused)?;
        if let Some(mailto) = subscriber.mail() {
            send_mail(context, deliveries, target, (id, message.id), mailto, &body).await
        } else {
            let message_id = message.id.to_string();
            let mut headers = notification::headers(&target.options, &target.keys, &message_id, at_s, &body);
            notification::add_trace(&mut headers, &message);
            if let Some(token) = token {
                headers.insert(AUTH_TOKEN, token);
            }
            context.client.post(deliveries.queue().project(), subscriber, headers, body).await
        }
    };
    let answer = before(began + ATTEMPT_DURATION_MAX, send).await.unwrap_or(Err(SendFailure::Timeout));

    let mut attempt = Attempt {
        message: message.id.bits(),
        number: delivery.attempt,
        at_s,
        status: None,
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        error: None,
        response: String::new(),
    };
    drop(permit);
    let mut result = match answer {
        Ok(response) => {
            attempt.status = Some(response.status);
            if let Some(trust) = &target.trust {
                // The response may repeat the token, and everybody in the project may read it.
                if response.status == UNAUTHORIZED {
                    context.trusts.iter().for_each(|trusts| trusts.forget_token(trust));
                }
            } else {
                attempt.response = response.start;
            }
            attempt.error = response.note;
            match response.status {
                200..=299 => AttemptResult::Delivered,
                GONE if subscriber.mail().is_none() => AttemptResult::Gone,
                status => {
                    attempt.error = Some(format!("the subscriber has answered {status}"));
                    AttemptResult::Failed { retry_after: response.retry_after, is_given_up: false }
                }
            }
        }
        Err(failure) => {
            attempt.error = Some(failure.to_string());
            AttemptResult::Failed { retry_after: None, is_given_up: false }
        }
    };
    if let AttemptResult::Failed { is_given_up, .. } = &mut result
        && delivery.is_last
    {
        match follow_ups::post_dead_letter(deliveries, id, target, delivery).await {
            Ok(()) => *is_given_up = true,
            Err(error) => {
                let failure = attempt.error.take().unwrap_or_default();
                attempt.error = Some(format!("{failure}; its dead letter could not be posted: {error}"));
            }
        }
    }
    match result {
        AttemptResult::Delivered => context.metrics.push().count_delivered(delay(&message)),
        AttemptResult::Gone | AttemptResult::Failed { .. } => context.metrics.push().count_failed(),
    }
    Some(Outcome { message: message.id, subscriber: target.text.clone(), attempt, result })
}

/// Runs a future until this time. No part of it runs later, even if the process was stopped
/// meanwhile: by then, another process may send the next message. A timeout alone polls the future
/// first.
async fn before<F: Future>(deadline: Instant, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let poll = |context: &mut task::Context<'_>| {
        if Instant::now() < deadline { future.as_mut().poll(context) } else { Poll::Pending }
    };
    timeout_at(deadline, poll_fn(poll)).await.ok()
}

/// Sends a message by mail.
async fn send_mail(
    context: &Context,
    deliveries: &QueueDeliveries,
    target: &Target,
    ids: (SubscriptionId, MessageId),
    mailto: &MailTo,
    body: &[u8],
) -> Result<Response, SendFailure> {
    let mailer = context.mailer()?;
    let mail = mailer.notification(deliveries.queue().name(), ids, mailto, &target.options, body)?;
    mailer.send(&mail).await
}

/// Returns the token for a subscriber that needs one, or why there is none.
async fn trust_token(
    context: &Context,
    target: &Target,
    subscriber: &Subscriber,
) -> Result<Option<HeaderValue>, String> {
    let Some(trust) = &target.trust else {
        return if subscriber.needs_trust() { Err("the subscription has no trust".to_owned()) } else { Ok(None) };
    };
    let trusts = context.trusts.as_ref().ok_or("this process does not use Keystone, so it has no trusts")?;
    let token = trusts.token(trust).await.map_err(|error| error.to_string())?;
    let mut token = HeaderValue::try_from(token.reveal().unwrap_or_default()).map_err(|error| error.to_string())?;
    token.set_sensitive(true);
    Ok(Some(token))
}

/// Returns the time since the message became visible, by the clock of this machine.
fn delay(message: &Message) -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_micros(message.id.rank().micros()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn nothing_of_an_attempt_runs_after_its_deadline() {
        let (sender, ready) = tokio::sync::oneshot::channel();
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut has_run = false;
        let mut attempt = Box::pin(before(deadline, async {
            let _ready = ready.await;
            has_run = true;
        }));
        assert!(futures::poll!(&mut attempt).is_pending());

        // As after a pause of the process, the future is ready and the deadline is over.
        sender.send(()).unwrap();
        tokio::time::advance(Duration::from_secs(60)).await;

        assert_eq!(attempt.await, None);
        assert!(!has_run);
    }
}
