//! Each operation on messages and claims, killed at each of its store calls.

use reqwest::{Method, RequestBuilder};
use serde_json::json;

use super::work::{CLAIMS, Fate, MESSAGES, QUEUE, World, any_fate, batch, doomed, judge};
use super::{PROJECT, Scene, answer_to};
use crate::support::sukkal::Api;

const NEW: [&str; 3] = ["new-0", "new-1", "new-2"];
const RENEWAL: &str = r#"{"ttl": 300, "grace": 60}"#;

/// Kills the request at each call, judges what has become of all messages, and says how many calls there are.
async fn kill_at_each_call(
    request: impl Fn(&Api, &World) -> RequestBuilder,
    fate: impl Fn(&str) -> Fate,
    new: &[&str],
) -> usize {
    let scene = Scene::start(PROJECT);
    scene
        .at_each_call(World::prepare, &request, async |crash, world| {
            if crash.is_repeated() {
                let (status, answer) = answer_to(request(&crash.api, &world)).await;
                assert!((200..300).contains(&status), "{status} {answer} after {:?}", crash.death);
            }
            judge(&scene, &crash, &world, &fate, new).await;
        })
        .await
}

fn is_new(by_key: bool) -> impl Fn(&str) -> Fate {
    move |name| if name.starts_with("new") { Fate::Posted { by_key } } else { Fate::Kept }
}

#[tokio::test]
async fn a_killed_claim_loses_no_message_and_doubles_no_dead_letter() {
    let claim = |api: &Api, _: &World| api.post(&format!("{CLAIMS}?limit=5"), &json!({ "ttl": 300, "grace": 60 }));

    let calls = kill_at_each_call(claim, any_fate(Fate::Kept), &[]).await;

    assert!(calls >= 9, "letters that go to a new queue take more than {calls} calls");
}

#[tokio::test]
async fn a_killed_pop_loses_what_it_popped_at_most() {
    let scene = Scene::start(PROJECT);
    let pop = |api: &Api, _: &World| api.delete(&format!("{MESSAGES}?pop=5"));

    // It is not repeated: that pops what comes next.
    let calls = scene
        .at_each_call(World::prepare, pop, async |crash, world| {
            judge(&scene, &crash, &world, &doomed(&["free-0", "free-1"]), &[]).await;
        })
        .await;

    assert!(calls >= 9, "letters that go to a new queue take more than {calls} calls");
}

#[tokio::test]
async fn a_killed_post_stores_all_its_messages_or_none() {
    for delay in [0, 600] {
        let post = |api: &Api, _: &World| api.post(MESSAGES, &batch(&NEW, delay));

        let calls = kill_at_each_call(post, is_new(false), &NEW).await;

        assert!(calls >= 1);
    }
}

#[tokio::test]
async fn a_killed_post_with_a_key_happens_once() {
    let post = |api: &Api, _: &World| api.post(MESSAGES, &batch(&NEW, 0)).header("Idempotency-Key", "\"new\"");

    let calls = kill_at_each_call(post, is_new(true), &NEW).await;

    assert!(calls >= 1);
}

#[tokio::test]
async fn a_killed_deletion_deletes_what_it_says_at_most() {
    let acknowledge =
        |api: &Api, world: &World| api.delete(&format!("{}?claim_id={}", world.message("held-0"), world.claim));
    assert!(kill_at_each_call(acknowledge, doomed(&["held-0"]), &[]).await >= 1);

    let delete = |api: &Api, world: &World| api.delete(&world.message("free-0"));
    assert!(kill_at_each_call(delete, doomed(&["free-0"]), &[]).await >= 1);

    let delete_many = |api: &Api, world: &World| {
        api.delete(&format!("{MESSAGES}?ids={},{}", world.id("free-0"), world.id("delayed-0")))
    };
    assert!(kill_at_each_call(delete_many, doomed(&["free-0", "delayed-0"]), &[]).await >= 1);
}

#[tokio::test]
async fn a_killed_purge_keeps_all_or_nothing() {
    let purge = |api: &Api, _: &World| api.request(Method::POST, &format!("{QUEUE}/purge"));

    assert!(kill_at_each_call(purge, any_fate(Fate::Doomed), &[]).await >= 1);
}

#[tokio::test]
async fn a_killed_change_of_a_claim_leaves_no_message_stuck() {
    let kept = || any_fate(Fate::Kept);
    for delay in [0, 300] {
        let give_back = |api: &Api, world: &World| api.delete(&format!("{}?delay={delay}", world.held("held-0")));
        assert!(kill_at_each_call(give_back, kept(), &[]).await >= 1);
    }

    let renew = |api: &Api, world: &World| {
        let path = format!("{CLAIMS}/{}", world.claim);
        api.request(Method::PATCH, &path).header("Content-Type", "application/json").body(RENEWAL)
    };
    assert!(kill_at_each_call(renew, kept(), &[]).await >= 1);

    let release = |api: &Api, world: &World| api.delete(&format!("{CLAIMS}/{}", world.claim));
    assert!(kill_at_each_call(release, kept(), &[]).await >= 1);
}

#[tokio::test]
async fn a_killed_change_of_metadata_touches_no_message() {
    let patch = |api: &Api, _: &World| {
        api.request(Method::PATCH, QUEUE)
            .header("Content-Type", "application/openstack-messaging-v2.0-json-patch")
            .body(r#"[{"op": "add", "path": "/metadata/colour", "value": "red"}]"#)
    };

    assert!(kill_at_each_call(patch, any_fate(Fate::Kept), &[]).await >= 2);
}
