//! Each operation on messages and claims, killed at each of its store calls.

use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::work::{CLAIMS, Fate, MESSAGES, QUEUE, QueueContents, any_fate, batch, deletion_fate, verify};
use super::{DEAD_LETTER_CALLS, PROJECT, Scene, kill_at_each_call};
use crate::http::{PATCH_TYPE, answered, send};
use support::sukkal::Api;

const NEW: [&str; 3] = ["new-0", "new-1", "new-2"];
const RENEWAL: &str = r#"{"ttl": 300, "grace": 60}"#;

/// Kills the request at each call, checks the fate of all messages, and checks that it makes at
/// least `calls_min` calls.
async fn check_fates(
    calls_min: usize,
    request: impl Fn(&Api, &QueueContents) -> RequestBuilder,
    fate: impl Fn(&str) -> Fate,
    new: &[&str],
) {
    let prepare = async |_: &Scene, api: &Api| QueueContents::prepare(api).await;
    kill_at_each_call(PROJECT, calls_min, prepare, &request, async |scene, outcome, contents| {
        if outcome.is_repeated() {
            let answer = send(request(&outcome.api, &contents)).await;
            assert!((200..300).contains(&answer.status), "{answer:?} after {:?}", outcome.kill_point);
        }
        verify(scene, &outcome, &contents, &fate, new).await;
    })
    .await;
}

fn is_new(by_key: bool) -> impl Fn(&str) -> Fate {
    move |name| if name.starts_with("new") { Fate::Posted { by_key } } else { Fate::Kept }
}

#[tokio::test]
async fn a_killed_claim_loses_no_message_and_doubles_no_dead_letter() {
    let claim =
        |api: &Api, _: &QueueContents| api.post(&format!("{CLAIMS}?limit=5"), &json!({ "ttl": 300, "grace": 60 }));

    check_fates(DEAD_LETTER_CALLS, claim, any_fate(Fate::Kept), &[]).await;
}

#[tokio::test]
async fn a_killed_pop_loses_at_most_the_popped_messages() {
    let prepare = async |_: &Scene, api: &Api| QueueContents::prepare(api).await;
    let pop = |api: &Api, _: &QueueContents| api.delete(&format!("{MESSAGES}?pop=5"));

    // The pop is not repeated, because that would pop the next messages.
    kill_at_each_call(PROJECT, DEAD_LETTER_CALLS, prepare, pop, async |scene, outcome, contents| {
        verify(scene, &outcome, &contents, &deletion_fate(&["free-0", "free-1"]), &[]).await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_post_stores_all_its_messages_or_none() {
    join_all([0, 600].map(async |delay| {
        let post = |api: &Api, _: &QueueContents| api.post(MESSAGES, &batch(&NEW, delay));

        check_fates(1, post, is_new(false), &NEW).await;
    }))
    .await;
}

#[tokio::test]
async fn a_killed_post_with_a_key_happens_once() {
    let post = |api: &Api, _: &QueueContents| api.post(MESSAGES, &batch(&NEW, 0)).header("Idempotency-Key", "\"new\"");

    check_fates(1, post, is_new(true), &NEW).await;
}

#[tokio::test]
async fn a_killed_deletion_deletes_at_most_the_given_messages() {
    let acknowledge = |api: &Api, contents: &QueueContents| {
        api.delete(&format!("{}?claim_id={}", contents.message("held-0"), contents.claim))
    };
    let delete = |api: &Api, contents: &QueueContents| api.delete(&contents.message("free-0"));
    let delete_many = |api: &Api, contents: &QueueContents| {
        api.delete(&format!("{MESSAGES}?ids={},{}", contents.id("free-0"), contents.id("delayed-0")))
    };

    tokio::join!(
        check_fates(1, acknowledge, deletion_fate(&["held-0"]), &[]),
        check_fates(1, delete, deletion_fate(&["free-0"]), &[]),
        check_fates(1, delete_many, deletion_fate(&["free-0", "delayed-0"]), &[]),
    );
}

#[tokio::test]
async fn a_killed_purge_keeps_all_messages_or_none() {
    let purge = |api: &Api, _: &QueueContents| api.request(Method::POST, &format!("{QUEUE}/purge"));

    check_fates(1, purge, any_fate(Fate::Deleted), &[]).await;
}

#[tokio::test]
async fn a_killed_claim_operation_leaves_no_message_stuck() {
    let kept = || any_fate(Fate::Kept);
    let return_message = async |delay: u32| {
        let return_message =
            |api: &Api, contents: &QueueContents| api.delete(&format!("{}?delay={delay}", contents.held("held-0")));
        check_fates(1, return_message, kept(), &[]).await;
    };
    let renew = |api: &Api, contents: &QueueContents| {
        let path = format!("{CLAIMS}/{}", contents.claim);
        api.request(Method::PATCH, &path).header("Content-Type", "application/json").body(RENEWAL)
    };
    let release = |api: &Api, contents: &QueueContents| api.delete(&format!("{CLAIMS}/{}", contents.claim));

    tokio::join!(
        return_message(0),
        return_message(300),
        check_fates(1, renew, kept(), &[]),
        check_fates(1, release, kept(), &[]),
    );
}

/// The queue is resumed before its messages are counted, unless the request resumes it.
#[tokio::test]
async fn a_killed_pause_or_resumption_changes_no_message() {
    join_all([("resume", "pause"), ("pause", "resume")].map(async |(prepared, requested)| {
        let switch = |api: &Api, verb: &str| api.request(Method::POST, &format!("{QUEUE}/{verb}"));
        let prepare = async |_: &Scene, api: &Api| {
            let contents = QueueContents::prepare(api).await;
            answered(switch(api, prepared), 204).await;
            contents
        };
        let request = |api: &Api, _: &QueueContents| switch(api, requested);

        kill_at_each_call(PROJECT, 1, prepare, request, async |scene, outcome, contents| {
            if requested == "pause" || outcome.is_repeated() || !outcome.acknowledged() {
                answered(switch(&outcome.api, "resume"), 204).await;
            }
            verify(scene, &outcome, &contents, &any_fate(Fate::Kept), &[]).await;
        })
        .await;
    }))
    .await;
}

#[tokio::test]
async fn a_killed_metadata_update_changes_no_message() {
    let patch = |api: &Api, _: &QueueContents| {
        api.request(Method::PATCH, QUEUE)
            .header("Content-Type", PATCH_TYPE)
            .body(r#"[{"op": "add", "path": "/metadata/color", "value": "red"}]"#)
    };

    check_fates(2, patch, any_fate(Fate::Kept), &[]).await;
}
