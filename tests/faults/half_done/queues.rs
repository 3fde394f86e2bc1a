//! The creation and the deletion of a queue, and operations that create one implicitly, killed at
//! each store call.

use std::collections::BTreeSet;

use reqwest::{Method, StatusCode};
use serde_json::json;

use super::work::{Fate, MESSAGES, QUEUE, QueueContents, batch, verify};
use super::{PROJECT, RequestOutcome, Scene, answer_to};
use crate::faults::lost_replies::feed;
use crate::faults::requests::{ids, message};
use crate::support::sukkal::{Api, Sukkal};

const NEW: [&str; 3] = ["new-0", "new-1", "new-2"];

#[tokio::test]
async fn a_killed_creation_leaves_no_unlisted_queue() {
    let scene = Scene::start(PROJECT);

    let calls = scene
        .at_each_call(
            async |_| {},
            |api, ()| api.put("/v2/queues/q"),
            async |outcome, ()| {
                let existed = scene.stored().queues().contains("q");
                assert!(existed || !outcome.acknowledged());
                assert_queue_usable(&scene, &outcome, existed).await;
            },
        )
        .await;

    assert!(calls > 3, "a creation needs more than {calls} calls");
}

#[tokio::test]
async fn a_killed_pause_of_a_new_queue_leaves_no_unlisted_queue() {
    let scene = Scene::start(PROJECT);
    let pause = |api: &Api| api.request(Method::POST, "/v2/queues/q/pause");

    let calls = scene
        .at_each_call(
            async |_| {},
            |api, ()| pause(api),
            async |outcome, ()| {
                let mut acknowledged = outcome.acknowledged();
                if outcome.is_repeated() {
                    let (status, answer) = answer_to(pause(&outcome.api)).await;
                    assert_eq!(status, 204, "{answer} after {:?}", outcome.kill_point);
                    acknowledged = true;
                }
                let existed = scene.stored().queues().contains("q");
                assert!(existed || !acknowledged);
                let claim = outcome.api.post("/v2/queues/q/claims", &json!({})).send().await.unwrap();
                assert!(claim.headers().contains_key("Retry-After") || !acknowledged, "it is not paused");
                assert_queue_usable(&scene, &outcome, existed).await;
            },
        )
        .await;

    assert!(calls > 4, "a pause of a new queue needs more than {calls} calls");
}

#[tokio::test]
async fn a_killed_first_post_leaves_no_unlisted_queue_and_is_atomic() {
    for key in [None, Some("\"new\"")] {
        let scene = Scene::start(PROJECT);
        let calls = kill_posts_at_each_call(&scene, key, async |_| {}).await;

        assert!(calls > 5, "a first post needs more than {calls} calls");
    }
}

#[tokio::test]
async fn a_killed_post_to_a_deleted_queue_is_atomic() {
    let scene = Scene::start(PROJECT);
    let other = Sukkal::start_without_janitor(&scene.redis, &scene.redis.url(), &[]);

    // The posting process has cached the queue, and another process deletes it.
    let calls = kill_posts_at_each_call(&scene, None, async |api| {
        let posted = api.post(MESSAGES, &message("before")).send().await.unwrap();
        assert_eq!(posted.status(), StatusCode::CREATED);
        let deleted = other.project(PROJECT).delete(QUEUE).send().await.unwrap();
        assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    })
    .await;

    assert!(calls > 5, "a post that recreates its queue needs more than {calls} calls");
}

#[tokio::test]
async fn a_killed_queue_deletion_leaves_no_partial_queue() {
    let scene = Scene::start(PROJECT);
    let prepare = async |api: &Api| {
        let posted = api.post("/v2/queues/q/messages", &message("last")).send().await.unwrap();
        assert_eq!(posted.status(), StatusCode::CREATED);
    };

    let calls = scene
        .at_each_call(
            prepare,
            |api, ()| api.delete("/v2/queues/q"),
            async |outcome, ()| {
                let existed = scene.stored().queues().contains("q");
                assert!(!existed || !outcome.acknowledged());
                assert_queue_usable(&scene, &outcome, existed).await;
            },
        )
        .await;

    assert!(calls > 1, "a deletion needs more than {calls} calls");
}

#[tokio::test]
async fn a_killed_deletion_loses_no_dead_letter() {
    let scene = Scene::start(PROJECT);
    let fate = |name: &str| if name.starts_with("tried") { Fate::Kept } else { Fate::Deleted };

    let calls = scene
        .at_each_call(
            async |api| QueueContents::prepare_dead_letters(&scene.redis, api).await,
            |api, _| api.delete(QUEUE),
            async |outcome, contents| {
                if outcome.is_repeated() {
                    let (status, _) = answer_to(outcome.api.delete(QUEUE)).await;
                    assert_eq!(status, 204);
                }
                verify(&scene, &outcome, &contents, &fate, &[]).await;
            },
        )
        .await;

    assert!(calls >= 9, "dead letters for a new queue need more than {calls} calls");
}

#[tokio::test]
async fn a_killed_health_check_leaves_at_most_a_complete_queue() {
    let scene = Scene::start("sukkal-health");
    let check = |api: &Api| api.get("/v2/health").header("X-Roles", "admin");

    let calls = scene
        .at_each_call(
            async |_| {},
            |api, ()| check(api),
            async |outcome, ()| {
                assert!(scene.stored().queues().len() <= 1);
                if outcome.is_repeated() {
                    let (status, health) = answer_to(check(&outcome.api)).await;
                    assert_eq!(status, 200, "{health}");
                }
            },
        )
        .await;

    assert!(calls > 15, "a health check does more than {calls} things");
}

/// Posts a batch to the queue, killed at each call. Checks that its messages are adjacent, in
/// order, under the ids of the receipt, and as often as allowed.
async fn kill_posts_at_each_call(scene: &Scene, key: Option<&str>, prepare: impl AsyncFn(&Api)) -> usize {
    let post = |api: &Api| {
        let post = api.post(MESSAGES, &batch(&NEW, 0));
        key.into_iter().fold(post, |post, key| post.header("Idempotency-Key", key))
    };
    scene
        .at_each_call(
            prepare,
            |api, ()| post(api),
            async |outcome, ()| {
                let repeated = outcome.is_repeated();
                let answer = if repeated { Some(answer_to(post(&outcome.api)).await) } else { outcome.answer };
                let (found, bodies): (Vec<_>, Vec<_>) = feed(&outcome.api, MESSAGES).await.into_iter().unzip();

                let batches = bodies.len() / NEW.len();
                assert_eq!(bodies, NEW.repeat(batches), "after {:?}", outcome.kill_point);
                let most = if key.is_none() && repeated { 2 } else { 1 };
                assert!(batches <= most, "{batches} times after {:?}", outcome.kill_point);
                if let Some((status, receipt)) = answer {
                    assert_eq!(status, 201);
                    assert!(found.ends_with(&ids(&receipt)), "acknowledged, but not stored: {:?}", outcome.kill_point);
                }
            },
        )
        .await
}

/// Checks that the queue can be created and deleted.
async fn assert_queue_usable(scene: &Scene, outcome: &RequestOutcome, existed: bool) {
    let created = outcome.api.put("/v2/queues/q").send().await.unwrap();
    assert_eq!(created.status(), if existed { 204 } else { 201 });
    assert_eq!(scene.stored().registered(), BTreeSet::from(["q".to_owned()]));
    let deleted = outcome.api.delete("/v2/queues/q").send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    scene.stored().assert_no_queue_left();
}
