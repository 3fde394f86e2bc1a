//! The birth and death of a queue, killed at each store call; and of what comes and goes with it.

use std::collections::BTreeSet;

use reqwest::StatusCode;

use super::work::{Fate, MESSAGES, QUEUE, World, batch, judge};
use super::{Crash, NO_JANITOR, PROJECT, Scene, answer_to};
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
            async |crash, ()| {
                let existed = scene.stored().queues().contains("q");
                assert!(existed || !crash.acknowledged());
                works_as_if_nothing_had_been(&scene, &crash, existed).await;
            },
        )
        .await;

    assert!(calls > 3, "a creation takes more calls than {calls}");
}

#[tokio::test]
async fn a_killed_first_post_leaves_no_unlisted_queue_and_is_whole() {
    for key in [None, Some("\"new\"")] {
        let scene = Scene::start(PROJECT);
        let calls = kill_posts_at_each_call(&scene, key, async |_| {}).await;

        assert!(calls > 5, "a first post takes more calls than {calls}");
    }
}

#[tokio::test]
async fn a_killed_post_to_a_queue_that_went_away_is_whole() {
    let scene = Scene::start(PROJECT);
    let other = Sukkal::start_with(&scene.redis.url(), &[NO_JANITOR]);

    // The process that posts remembers the queue; another deletes it.
    let calls = kill_posts_at_each_call(&scene, None, async |api| {
        let posted = api.post(MESSAGES, &message("before")).send().await.unwrap();
        assert_eq!(posted.status(), StatusCode::CREATED);
        let deleted = other.project(PROJECT).delete(QUEUE).send().await.unwrap();
        assert_eq!(deleted.status(), StatusCode::NO_CONTENT);
    })
    .await;

    assert!(calls > 5, "a post that creates its queue anew takes more calls than {calls}");
}

#[tokio::test]
async fn a_killed_deletion_leaves_no_half_of_a_queue() {
    let scene = Scene::start(PROJECT);
    let prepare = async |api: &Api| {
        let posted = api.post("/v2/queues/q/messages", &message("last")).send().await.unwrap();
        assert_eq!(posted.status(), StatusCode::CREATED);
    };

    let calls = scene
        .at_each_call(
            prepare,
            |api, ()| api.delete("/v2/queues/q"),
            async |crash, ()| {
                let existed = scene.stored().queues().contains("q");
                assert!(!existed || !crash.acknowledged());
                works_as_if_nothing_had_been(&scene, &crash, existed).await;
            },
        )
        .await;

    assert!(calls > 1, "a deletion takes more calls than {calls}");
}

#[tokio::test]
async fn a_killed_deletion_loses_no_dead_letter() {
    let scene = Scene::start(PROJECT);
    let fate = |name: &str| if name.starts_with("tried") { Fate::Kept } else { Fate::Doomed };

    let calls = scene
        .at_each_call(
            async |api| World::prepare_letters(&scene.redis, api).await,
            |api, _| api.delete(QUEUE),
            async |crash, world| {
                if crash.is_repeated() {
                    let (status, _) = answer_to(crash.api.delete(QUEUE)).await;
                    assert_eq!(status, 204);
                }
                judge(&scene, &crash, &world, &fate, &[]).await;
            },
        )
        .await;

    assert!(calls >= 9, "letters that go to a new queue take more than {calls} calls");
}

#[tokio::test]
async fn a_killed_health_check_leaves_a_whole_queue_at_most() {
    let scene = Scene::start("sukkal-health");
    let check = |api: &Api| api.get("/v2/health").header("X-Roles", "admin");

    let calls = scene
        .at_each_call(
            async |_| {},
            |api, ()| check(api),
            async |crash, ()| {
                assert!(scene.stored().queues().len() <= 1);
                if crash.is_repeated() {
                    let (status, health) = answer_to(check(&crash.api)).await;
                    assert_eq!(status, 200, "{health}");
                }
            },
        )
        .await;

    assert!(calls > 15, "a health check does more than {calls} things");
}

/// Posts a batch to the queue, killed at each call, and checks that its messages are there together, in order
/// and under the ids of the receipt, as often as they may be.
async fn kill_posts_at_each_call(scene: &Scene, key: Option<&str>, prepare: impl AsyncFn(&Api)) -> usize {
    let post = |api: &Api| {
        let post = api.post(MESSAGES, &batch(&NEW, 0));
        key.into_iter().fold(post, |post, key| post.header("Idempotency-Key", key))
    };
    scene
        .at_each_call(
            prepare,
            |api, ()| post(api),
            async |crash, ()| {
                let repeated = crash.is_repeated();
                let answer = if repeated { Some(answer_to(post(&crash.api)).await) } else { crash.answer };
                let (found, bodies): (Vec<_>, Vec<_>) = feed(&crash.api, MESSAGES).await.into_iter().unzip();

                let batches = bodies.len() / NEW.len();
                assert_eq!(bodies, NEW.repeat(batches), "after {:?}", crash.death);
                let most = if key.is_none() && repeated { 2 } else { 1 };
                assert!(batches <= most, "{batches} times after {:?}", crash.death);
                if let Some((status, receipt)) = answer {
                    assert_eq!(status, 201);
                    assert!(found.ends_with(&ids(&receipt)), "acknowledged, but not there: {:?}", crash.death);
                }
            },
        )
        .await
}

/// Checks that the queue can be created and deleted.
async fn works_as_if_nothing_had_been(scene: &Scene, crash: &Crash, existed: bool) {
    let created = crash.api.put("/v2/queues/q").send().await.unwrap();
    assert_eq!(created.status(), if existed { 204 } else { 201 });
    assert_eq!(scene.stored().registered(), BTreeSet::from(["q".to_owned()]));
    let deleted = crash.api.delete("/v2/queues/q").send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    scene.stored().no_queue_is_left();
}
