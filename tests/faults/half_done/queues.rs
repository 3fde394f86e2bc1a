//! The creation and the deletion of a queue, and operations that create one implicitly, killed at
//! each store call.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::json;
use sukkal_storage::QueueStore;

use super::work::{Fate, MESSAGES, QUEUE, QueueContents, batch, verify};
use super::{DEAD_LETTER_CALLS, PROJECT, RequestOutcome, Scene, kill_at_each_call};
use crate::faults::lost_replies::feed;
use crate::faults::requests::message;
use crate::http::{answered, ids, send};
use support::sukkal::Api;

const NEW: [&str; 3] = ["new-0", "new-1", "new-2"];

#[tokio::test]
async fn a_killed_creation_leaves_no_unlisted_queue() {
    let request = |api: &Api, (): &()| api.put("/v2/queues/q");

    kill_at_each_call(PROJECT, 4, nothing, request, async |scene, outcome, ()| {
        let existed = scene.stored().queues().contains("q");
        assert!(existed || !outcome.acknowledged());
        assert_queue_usable(scene, &outcome, existed).await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_pause_of_a_new_queue_leaves_no_unlisted_queue() {
    let pause = |api: &Api, (): &()| api.request(Method::POST, "/v2/queues/q/pause");

    kill_at_each_call(PROJECT, 5, nothing, pause, async |scene, outcome, ()| {
        let mut acknowledged = outcome.acknowledged();
        if outcome.is_repeated() {
            answered(pause(&outcome.api, &()), 204).await;
            acknowledged = true;
        }
        let existed = scene.stored().queues().contains("q");
        assert!(existed || !acknowledged);
        let claim = outcome.api.post("/v2/queues/q/claims", &json!({})).send().await.unwrap();
        assert!(claim.headers().contains_key("Retry-After") || !acknowledged, "it is not paused");
        assert_queue_usable(scene, &outcome, existed).await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_first_post_leaves_no_unlisted_queue_and_is_atomic() {
    tokio::join!(check_posts(None, nothing), check_posts(Some("\"new\""), nothing));
}

#[tokio::test]
async fn a_killed_post_to_a_deleted_queue_is_atomic() {
    // The posting process has cached the queue, and another process deletes it.
    check_posts(None, async |scene: &Scene, api: &Api| {
        answered(api.post(MESSAGES, &message("before")), 201).await;
        scene.store.delete_queue(&scene.queue("work")).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_killed_queue_deletion_leaves_no_partial_queue() {
    let prepare = async |_: &Scene, api: &Api| {
        answered(api.post("/v2/queues/q/messages", &message("last")), 201).await;
    };
    let request = |api: &Api, (): &()| api.delete("/v2/queues/q");

    kill_at_each_call(PROJECT, 2, prepare, request, async |scene, outcome, ()| {
        let existed = scene.stored().queues().contains("q");
        assert!(!existed || !outcome.acknowledged());
        assert_queue_usable(scene, &outcome, existed).await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_deletion_loses_no_dead_letter() {
    let prepare = async |scene: &Scene, api: &Api| QueueContents::prepare_dead_letters(&scene.redis, api).await;
    let request = |api: &Api, _: &QueueContents| api.delete(QUEUE);
    let fate = |name: &str| if name.starts_with("tried") { Fate::Kept } else { Fate::Deleted };

    kill_at_each_call(PROJECT, DEAD_LETTER_CALLS, prepare, request, async |scene, outcome, contents| {
        if outcome.is_repeated() {
            answered(outcome.api.delete(QUEUE), 204).await;
        }
        verify(scene, &outcome, &contents, &fate, &[]).await;
    })
    .await;
}

#[tokio::test]
async fn a_killed_health_check_leaves_at_most_a_complete_queue() {
    let check = |api: &Api, (): &()| api.get("/v2/health").header("X-Roles", "admin");

    kill_at_each_call("sukkal-health", 16, nothing, check, async |scene, outcome, ()| {
        assert!(scene.stored().queues().len() <= 1);
        if outcome.is_repeated() {
            answered(check(&outcome.api, &()), 200).await;
        }
    })
    .await;
}

/// Prepares nothing.
async fn nothing(_: &Scene, _: &Api) {}

/// Posts a batch to a queue that does not exist, killed at each call. Checks that its messages are
/// adjacent, in order, under the ids of the receipt, and as often as allowed.
async fn check_posts(key: Option<&str>, prepare: impl AsyncFn(&Scene, &Api)) {
    let post = |api: &Api, (): &()| {
        let post = api.post(MESSAGES, &batch(&NEW, 0));
        key.into_iter().fold(post, |post, key| post.header("Idempotency-Key", key))
    };
    kill_at_each_call(PROJECT, 6, prepare, post, async |_, outcome, ()| {
        let repeated = outcome.is_repeated();
        let answer = if repeated { Some(send(post(&outcome.api, &())).await) } else { outcome.answer };
        let (found, bodies): (Vec<_>, Vec<_>) = feed(&outcome.api, MESSAGES).await.into_iter().unzip();

        let batches = bodies.len() / NEW.len();
        assert_eq!(bodies, NEW.repeat(batches), "after {:?}", outcome.kill_point);
        let most = if key.is_none() && repeated { 2 } else { 1 };
        assert!(batches <= most, "{batches} times after {:?}", outcome.kill_point);
        if let Some(answer) = answer {
            assert_eq!(answer.status, 201);
            assert!(found.ends_with(&ids(&answer.json())), "acknowledged, but not stored: {:?}", outcome.kill_point);
        }
    })
    .await;
}

/// Checks that the queue can be created and deleted.
async fn assert_queue_usable(scene: &Scene, outcome: &RequestOutcome, existed: bool) {
    answered(outcome.api.put("/v2/queues/q"), if existed { 204 } else { 201 }).await;
    assert_eq!(scene.stored().registered(), BTreeSet::from(["q".to_owned()]));
    answered(outcome.api.delete("/v2/queues/q"), 204).await;
    scene.stored().assert_no_queue_left();
}
