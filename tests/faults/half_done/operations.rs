//! Each operation on messages and claims, killed at each of its store calls.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::work::{CLAIMS, Fate, MESSAGES, QUEUE, QueueContents, any_fate, batch, deletion_fate, verify};
use super::{PROJECT, Scene, answer_to};
use crate::support::sukkal::Api;

const NEW: [&str; 3] = ["new-0", "new-1", "new-2"];
const RENEWAL: &str = r#"{"ttl": 300, "grace": 60}"#;

/// Kills the request at each call, checks the fate of all messages, and returns the number of
/// calls.
async fn kill_at_each_call(
    request: impl Fn(&Api, &QueueContents) -> RequestBuilder,
    fate: impl Fn(&str) -> Fate,
    new: &[&str],
) -> usize {
    let scene = Scene::start(PROJECT);
    scene
        .at_each_call(QueueContents::prepare, &request, async |outcome, contents| {
            if outcome.is_repeated() {
                let (status, answer) = answer_to(request(&outcome.api, &contents)).await;
                assert!((200..300).contains(&status), "{status} {answer} after {:?}", outcome.kill_point);
            }
            verify(&scene, &outcome, &contents, &fate, new).await;
        })
        .await
}

fn is_new(by_key: bool) -> impl Fn(&str) -> Fate {
    move |name| if name.starts_with("new") { Fate::Posted { by_key } } else { Fate::Kept }
}

#[tokio::test]
async fn a_killed_claim_loses_no_message_and_doubles_no_dead_letter() {
    let claim =
        |api: &Api, _: &QueueContents| api.post(&format!("{CLAIMS}?limit=5"), &json!({ "ttl": 300, "grace": 60 }));

    let calls = kill_at_each_call(claim, any_fate(Fate::Kept), &[]).await;

    assert!(calls >= 9, "dead letters for a new queue need more than {calls} calls");
}

#[tokio::test]
async fn a_killed_pop_loses_at_most_the_popped_messages() {
    let scene = Scene::start(PROJECT);
    let pop = |api: &Api, _: &QueueContents| api.delete(&format!("{MESSAGES}?pop=5"));

    // The pop is not repeated, because that would pop the next messages.
    let calls = scene
        .at_each_call(QueueContents::prepare, pop, async |outcome, contents| {
            verify(&scene, &outcome, &contents, &deletion_fate(&["free-0", "free-1"]), &[]).await;
        })
        .await;

    assert!(calls >= 9, "dead letters for a new queue need more than {calls} calls");
}

#[tokio::test]
async fn a_killed_post_stores_all_its_messages_or_none() {
    for delay in [0, 600] {
        let post = |api: &Api, _: &QueueContents| api.post(MESSAGES, &batch(&NEW, delay));

        let calls = kill_at_each_call(post, is_new(false), &NEW).await;

        assert!(calls >= 1);
    }
}

#[tokio::test]
async fn a_killed_post_with_a_key_happens_once() {
    let post = |api: &Api, _: &QueueContents| api.post(MESSAGES, &batch(&NEW, 0)).header("Idempotency-Key", "\"new\"");

    let calls = kill_at_each_call(post, is_new(true), &NEW).await;

    assert!(calls >= 1);
}

#[tokio::test]
async fn a_killed_deletion_deletes_at_most_the_given_messages() {
    let acknowledge = |api: &Api, contents: &QueueContents| {
        api.delete(&format!("{}?claim_id={}", contents.message("held-0"), contents.claim))
    };
    assert!(kill_at_each_call(acknowledge, deletion_fate(&["held-0"]), &[]).await >= 1);

    let delete = |api: &Api, contents: &QueueContents| api.delete(&contents.message("free-0"));
    assert!(kill_at_each_call(delete, deletion_fate(&["free-0"]), &[]).await >= 1);

    let delete_many = |api: &Api, contents: &QueueContents| {
        api.delete(&format!("{MESSAGES}?ids={},{}", contents.id("free-0"), contents.id("delayed-0")))
    };
    assert!(kill_at_each_call(delete_many, deletion_fate(&["free-0", "delayed-0"]), &[]).await >= 1);
}

#[tokio::test]
async fn a_killed_purge_keeps_all_messages_or_none() {
    let purge = |api: &Api, _: &QueueContents| api.request(Method::POST, &format!("{QUEUE}/purge"));

    assert!(kill_at_each_call(purge, any_fate(Fate::Deleted), &[]).await >= 1);
}

#[tokio::test]
async fn a_killed_claim_operation_leaves_no_message_stuck() {
    let kept = || any_fate(Fate::Kept);
    for delay in [0, 300] {
        let return_message =
            |api: &Api, contents: &QueueContents| api.delete(&format!("{}?delay={delay}", contents.held("held-0")));
        assert!(kill_at_each_call(return_message, kept(), &[]).await >= 1);
    }

    let renew = |api: &Api, contents: &QueueContents| {
        let path = format!("{CLAIMS}/{}", contents.claim);
        api.request(Method::PATCH, &path).header("Content-Type", "application/json").body(RENEWAL)
    };
    assert!(kill_at_each_call(renew, kept(), &[]).await >= 1);

    let release = |api: &Api, contents: &QueueContents| api.delete(&format!("{CLAIMS}/{}", contents.claim));
    assert!(kill_at_each_call(release, kept(), &[]).await >= 1);
}

/// The queue is resumed before its messages are counted, unless the request resumes it.
#[tokio::test]
async fn a_killed_pause_or_resumption_changes_no_message() {
    for (prepared, requested) in [("resume", "pause"), ("pause", "resume")] {
        let scene = Scene::start(PROJECT);
        let switch = |api: &Api, verb: &str| api.request(Method::POST, &format!("{QUEUE}/{verb}"));
        let prepare = async |api: &Api| {
            let contents = QueueContents::prepare(api).await;
            assert_eq!(answer_to(switch(api, prepared)).await.0, 204);
            contents
        };

        let calls = scene
            .at_each_call(
                prepare,
                |api, _| switch(api, requested),
                async |outcome, contents| {
                    if requested == "pause" || outcome.is_repeated() || !outcome.acknowledged() {
                        assert_eq!(answer_to(switch(&outcome.api, "resume")).await.0, 204);
                    }
                    verify(&scene, &outcome, &contents, &any_fate(Fate::Kept), &[]).await;
                },
            )
            .await;

        assert!(calls >= 1);
    }
}

#[tokio::test]
async fn a_killed_metadata_update_changes_no_message() {
    let patch = |api: &Api, _: &QueueContents| {
        api.request(Method::PATCH, QUEUE)
            .header("Content-Type", "application/openstack-messaging-v2.0-json-patch")
            .body(r#"[{"op": "add", "path": "/metadata/color", "value": "red"}]"#)
    };

    assert!(kill_at_each_call(patch, any_fate(Fate::Kept), &[]).await >= 2);
}
