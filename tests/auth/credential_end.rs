//! When a credential expires, what it began ends: event streams and requests that wait.

use std::time::Duration;

use reqwest::RequestBuilder;
use serde_json::{Value, json};
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};

use super::SECRET_KEY;
use crate::http::{answered, send};
use support::events::Events;
use support::sukkal::{Api, Sukkal};

/// Validity of the URLs, of which the service cuts off a part of a second.
const VALID: Duration = Duration::from_secs(5);
/// Maximum time between the end of a credential and the end of what it began.
const DELAY_MAX: Duration = Duration::from_secs(5);
const MESSAGES: &str = "/v2/queues/q/messages";

/// Lets the service sign a URL for the queue `q` that expires soon. Returns the headers of its
/// requests, and the time by which what it began has ended.
async fn short_lived(owner: &Api) -> (Vec<(&'static str, String)>, Instant) {
    let expires = (OffsetDateTime::now_utc() + VALID).unix_timestamp();
    let expires = OffsetDateTime::from_unix_timestamp(expires).unwrap();
    let format = time::format_description::well_known::Iso8601::DEFAULT;
    let body = json!({
        "paths": ["messages", "claims"], "methods": ["GET", "POST"], "expires": expires.format(&format).unwrap(),
    });
    let document = answered(owner.post("/v2/queues/q/share", &body), 200).await.json();
    let list = |key: &str| {
        let items = document[key].as_array().unwrap().iter();
        items.map(|item| item.as_str().unwrap()).collect::<Vec<_>>().join(",")
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let headers = vec![
        ("URL-Paths", list("paths")),
        ("URL-Methods", list("methods")),
        ("URL-Expires", text(&document["expires"])),
        ("URL-Signature", text(&document["signature"])),
    ];
    (headers, Instant::now() + VALID + DELAY_MAX)
}

fn signed(request: RequestBuilder, headers: &[(&'static str, String)]) -> RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
}

#[tokio::test]
async fn an_event_stream_ends_with_its_credential() {
    let sukkal = Sukkal::start_with("memory:", &[(SECRET_KEY, "the secret of these tests")]);
    let owner = sukkal.project("p");
    let (headers, ends_by) = short_lived(&owner).await;

    let mut unlimited = Events::open(owner.get(&format!("{MESSAGES}?echo=true"))).await;
    let mut events = Events::open(signed(owner.get(&format!("{MESSAGES}?echo=true")), &headers)).await;
    answered(owner.post(MESSAGES, &json!({"messages": [{"body": 1}]})), 201).await;
    assert_eq!(events.bodies(1).await, [1]);
    assert_eq!(events.next().await, None);

    assert!(Instant::now() < ends_by);
    assert_eq!(send(signed(owner.get(MESSAGES), &headers)).await.status, 404);
    answered(owner.post(MESSAGES, &json!({"messages": [{"body": 2}]})), 201).await;
    assert_eq!(unlimited.bodies(2).await, [1, 2]);
}

/// A reader that is behind gets no more either.
#[tokio::test]
async fn a_stream_that_always_has_messages_ends_with_its_credential() {
    let sukkal = Sukkal::start_with("memory:", &[(SECRET_KEY, "the secret of these tests")]);
    let owner = sukkal.project("p");
    let (headers, ends_by) = short_lived(&owner).await;

    let mut events = Events::open(signed(owner.get(&format!("{MESSAGES}?echo=true")), &headers)).await;
    let post = async {
        loop {
            answered(owner.post(MESSAGES, &json!({"messages": [{"body": 1}]})), 201).await;
        }
    };
    let read = async { while events.next().await.is_some() {} };
    tokio::select! {
        () = post => unreachable!("it never ends"),
        ended = timeout(ends_by - Instant::now(), read) => ended.expect("the stream ends"),
    }
}

#[tokio::test]
async fn a_waiting_request_ends_with_its_credential() {
    let sukkal = Sukkal::start_with("memory:", &[(SECRET_KEY, "the secret of these tests")]);
    let owner = sukkal.project("p");
    let (headers, ends_by) = short_lived(&owner).await;

    let list = send(signed(owner.get(&format!("{MESSAGES}?wait=30")), &headers));
    let claim = send(signed(owner.post("/v2/queues/q/claims?wait=30", &json!({})), &headers));
    let (list, claim) = tokio::join!(list, claim);

    assert!(Instant::now() < ends_by);
    assert_eq!((list.json()["messages"].clone(), claim.status), (json!([]), 204));
}
