//! Confirmations: documents that ask subscribers whether they want to be notified. A confirmation
//! that cannot be sent is repeated a few times. After that, the owner can ask for another one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use lettre::Message;
use serde_json::Value;
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};
use uuid::Uuid;

use super::client::{Response, SendFailure};
use super::context::Context;
use super::notification;
use crate::auth::signed_url::Signer;
use crate::wire::confirmation::confirmation_document;
use sukkal_domain::{ConfirmationRequest, DeliveryOptions, ProjectId, Subscriber};

/// Pauses before the attempts to send a confirmation.
const PAUSES: [Duration; 4] = [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(5), Duration::from_secs(30)];
/// Maximum number of confirmations of a project that are not sent yet. Further ones are dropped.
const PER_PROJECT_MAX: usize = 256;

/// Sends the confirmations that the broker asks for until the process stops.
pub(super) async fn send_all(
    context: Arc<Context>,
    tasks: TaskTracker,
    signer: Signer,
    mut requests: Receiver<ConfirmationRequest>,
) {
    let mut projects: HashMap<ProjectId, Arc<Semaphore>> = HashMap::new();
    while let Some(Some(request)) = context.stopping.run_until_cancelled(requests.recv()).await {
        projects.retain(|_, permits| permits.available_permits() < PER_PROJECT_MAX);
        let permits = projects.entry(request.queue.project().clone());
        let permits = permits.or_insert_with(|| Arc::new(Semaphore::new(PER_PROJECT_MAX)));
        let Ok(permit) = permits.clone().try_acquire_owned() else {
            let (queue, subscription) = (&request.queue, request.subscription);
            warn!(%queue, %subscription, "a confirmation was not sent: too many of this project wait");
            continue;
        };
        let (this, signer) = (context.clone(), signer.clone());
        tasks.spawn(async move {
            let _permit = permit;
            this.stopping.run_until_cancelled(send(&this, &signer, &request)).await;
        });
    }
}

async fn send(context: &Context, signer: &Signer, request: &ConfirmationRequest) {
    let (queue, subscription) = (&request.queue, request.subscription);
    let subscriber = match Subscriber::parse(&request.subscriber, &context.rules) {
        Ok(subscriber) => subscriber,
        Err(reason) => return warn!(%queue, %subscription, %reason, "a confirmation cannot be sent"),
    };
    let document = match confirmation_document(request, signer, OffsetDateTime::now_utc()) {
        Ok(document) => document,
        Err(reason) => return warn!(%queue, %subscription, %reason, "a confirmation cannot be signed"),
    };
    let id = Uuid::new_v4().to_string();
    let confirmation = match prepare(context, request, &document, &subscriber, &id) {
        Ok(confirmation) => confirmation,
        Err(reason) => return warn!(%queue, %subscription, %reason, "a confirmation was not sent"),
    };
    for pause in PAUSES {
        sleep(pause).await;
        let _permit = context.client.permit(queue.project(), &subscriber).await;
        match confirmation.send(context, request, &subscriber, &id).await {
            Ok(response) if (200..300).contains(&response.status) => return,
            Ok(response) => debug!(%queue, %subscription, response.status, "a confirmation was refused"),
            Err(reason) => debug!(%queue, %subscription, %reason, "a confirmation did not arrive"),
        }
    }
    warn!(%queue, %subscription, "a confirmation was not sent; the subscription can be posted again");
}

/// A confirmation that can be sent several times.
enum Confirmation {
    Request(Box<DeliveryOptions>, Vec<u8>),
    Mail(Message),
}

/// Repermits the confirmation of a subscriber.
fn prepare(
    context: &Context,
    request: &ConfirmationRequest,
    document: &Value,
    subscriber: &Subscriber,
    id: &str,
) -> Result<Confirmation, SendFailure> {
    if let Some(mailto) = subscriber.mail() {
        return context.mailer()?.confirmation(request, document, mailto, id).map(Confirmation::Mail);
    }
    let options =
        DeliveryOptions::parse(&request.options).map_err(|reason| SendFailure::Refused(reason.to_string()))?;
    let body = notification::fill_in(&options, document.to_string());
    Ok(Confirmation::Request(Box::new(options), body))
}

impl Confirmation {
    async fn send(
        &self,
        context: &Context,
        request: &ConfirmationRequest,
        subscriber: &Subscriber,
        id: &str,
    ) -> Result<Response, SendFailure> {
        match self {
            Self::Request(options, body) => {
                let headers = notification::headers(options, &request.keys, id, notification::unix_seconds(), body);
                context.client.post(request.queue.project(), subscriber, headers, body.clone()).await
            }
            Self::Mail(mail) => context.mailer()?.send(mail).await,
        }
    }
}
