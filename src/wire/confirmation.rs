//! The document that asks a subscriber to confirm its subscription. It contains a pre-signed URL,
//! so the subscriber needs no account.

use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

use super::paths;
use crate::auth::signed_url::{Expiry, InvalidSignedUrl, SignedUrl, Signer};
use sukkal_domain::{ConfirmationKind, ConfirmationRequest};

/// The method that confirms a subscription.
const METHOD: &str = "PUT";

/// Returns the document for a subscriber, signed with the key of this service.
///
/// # Errors
///
/// [`InvalidSignedUrl`] if the request is valid for no time.
pub fn confirmation_document(
    request: &ConfirmationRequest,
    signer: &Signer,
    now: OffsetDateTime,
) -> Result<Value, InvalidSignedUrl> {
    let queue = request.queue.name();
    let path = paths::below(queue, &format!("subscriptions/{}/confirm", request.subscription));
    let valid = Duration::seconds(i64::try_from(request.valid_s).unwrap_or(i64::MAX));
    let project = request.queue.project().clone();
    let url = SignedUrl::new(vec![path], vec![METHOD.to_owned()], project, Expiry::after(now, valid), now)?;
    let noun = queue.kind().noun();
    let (message_type, message) = match request.kind {
        ConfirmationKind::Subscription => {
            ("SubscriptionConfirmation", format!("You have chosen to subscribe to the {noun}: {queue}"))
        }
        ConfirmationKind::Unsubscription => {
            ("UnsubscribeConfirmation", format!("You have unsubscribed successfully to the {noun}: {queue}"))
        }
    };
    let mut document = json!({
        "Message_Type": message_type,
        "Message": message,
        "URL-Signature": signer.sign(&url),
        "URL-Methods": url.methods().join(","),
        "URL-Paths": url.paths().join(","),
        "X-Project-ID": url.project().as_str(),
        "URL-Expires": url.expiry().to_string(),
        "SubscribeBody": { "confirmed": true },
        "UnsubscribeBody": { "confirmed": false },
        "queue_name": queue.plain(),
    });
    if let Some(topic) = queue.topic() {
        document["topic_name"] = json!(topic);
    }
    Ok(document)
}

#[cfg(test)]
mod tests {

    use super::*;
    use sukkal_domain::{ProjectId, QueueId, Secret, SubscriptionId};

    #[test]
    fn the_document_allows_exactly_the_confirmation_until_it_expires() {
        let signer = Signer::new(&Secret::new("SECRET")).unwrap();
        let queue = QueueId::new(ProjectId::new("p1").unwrap(), "n1".parse().unwrap()).unwrap();
        let subscription = SubscriptionId::random();
        let now = OffsetDateTime::from_unix_timestamp(1_795_341_895).unwrap();
        let request = ConfirmationRequest {
            queue: queue.clone(),
            subscription,
            subscriber: "http://a.example".to_owned(),
            options: sukkal_domain::JsonObject::default(),
            keys: Vec::new(),
            kind: ConfirmationKind::Subscription,
            valid_s: 3600,
        };
        let path = format!("/v2/queues/n1/subscriptions/{subscription}/confirm");
        let expiry = Expiry::after(now, Duration::HOUR);
        let url = SignedUrl::new(vec![path.clone()], vec!["PUT".to_owned()], queue.project().clone(), expiry, now);

        let document = confirmation_document(&request, &signer, now).unwrap();

        assert_eq!(
            document,
            json!({
                "Message_Type": "SubscriptionConfirmation",
                "Message": "You have chosen to subscribe to the queue: n1",
                "URL-Signature": signer.sign(&url.unwrap()),
                "URL-Methods": "PUT",
                "URL-Paths": path,
                "X-Project-ID": "p1",
                "URL-Expires": "2026-11-22T11:04:55",
                "SubscribeBody": { "confirmed": true },
                "UnsubscribeBody": { "confirmed": false },
                "queue_name": "n1",
            })
        );
        let unsubscription = ConfirmationRequest { kind: ConfirmationKind::Unsubscription, ..request.clone() };
        let document = confirmation_document(&unsubscription, &signer, now).unwrap();
        assert_eq!(document["Message_Type"], "UnsubscribeConfirmation");
        let endless = ConfirmationRequest { valid_s: u64::MAX, ..request };
        assert_eq!(confirmation_document(&endless, &signer, now).unwrap()["URL-Expires"], "9999-12-31T23:59:59");
    }
}
