//! The process is killed between any two steps of a queue's birth or death: nothing half-done stays.

use std::collections::BTreeSet;

use reqwest::RequestBuilder;
use tokio::time::{Duration, sleep};

use super::gate::Gate;
use super::requests::message;
use super::stored::Stored;
use crate::support::redis::{RedisServer, poll_until};
use crate::support::sukkal::{Api, Sukkal};

/// A janitor that goes round once, before there is anything to see.
pub(super) const NO_JANITOR: (&str, &str) = ("SUKKAL_JANITOR__PAUSE", "86400");
const BUSY_JANITOR: (&str, &str) = ("SUKKAL_JANITOR__PAUSE", "1");
/// More steps than a request has.
const STEPS_MAX: usize = 20;

#[tokio::test]
async fn a_kill_between_any_two_steps_of_a_creation_leaves_no_unlisted_queue() {
    let redis = RedisServer::start();

    for steps in 0..STEPS_MAX {
        let project = format!("birth-{steps}.");
        let nothing = async |_: Api| {};
        let finished = kill_after(&redis, &project, steps, nothing, |api| api.put("/v2/queues/q")).await;

        all_is_whole(&redis, &project).await;
        if finished {
            assert!(steps > 3, "a creation takes more steps than {steps}");
            return;
        }
    }
    panic!("it has more steps than that");
}

#[tokio::test]
async fn a_kill_between_any_two_steps_of_a_first_post_leaves_no_unlisted_queue() {
    let redis = RedisServer::start();

    for steps in 0..STEPS_MAX {
        let project = format!("post-{steps}.");
        let nothing = async |_: Api| {};
        let post = |api: &Api| api.post("/v2/queues/q/messages", &message("first"));
        let finished = kill_after(&redis, &project, steps, nothing, post).await;

        all_is_whole(&redis, &project).await;
        if finished {
            assert!(steps > 5, "a first post takes more steps than {steps}");
            return;
        }
    }
    panic!("it has more steps than that");
}

#[tokio::test]
async fn a_kill_between_any_two_steps_of_a_deletion_leaves_no_half_of_a_queue() {
    let redis = RedisServer::start();

    for steps in 0..STEPS_MAX {
        let project = format!("death-{steps}.");
        let prepare = async |api: Api| {
            let posted = api.post("/v2/queues/q/messages", &message("last")).send().await.unwrap();
            assert_eq!(posted.status(), 201);
        };
        let finished = kill_after(&redis, &project, steps, prepare, |api| api.delete("/v2/queues/q")).await;

        all_is_whole(&redis, &project).await;
        if finished {
            assert!(steps > 1, "a deletion takes more steps than {steps}");
            return;
        }
    }
    panic!("it has more steps than that");
}

/// Kills a server when it wants to send the store its next command after `steps` for a request.
/// True if the request was answered before that.
async fn kill_after(
    redis: &RedisServer,
    project: &str,
    steps: usize,
    prepare: impl AsyncFnOnce(Api),
    request: impl Fn(&Api) -> RequestBuilder,
) -> bool {
    let gate = Gate::start(redis.port(), project);
    let mut sukkal = Sukkal::start_with(&gate.url(), &[NO_JANITOR]);
    let api = sukkal.project(project);
    prepare(api.clone()).await;

    gate.hold_after(steps);
    let answered = tokio::select! {
        answer = request(&api).send() => {
            assert!(answer.unwrap().status().is_success());
            true
        }
        () = async { while !gate.has_happened() { sleep(Duration::from_millis(2)).await } } => false,
    };
    sukkal.kill();
    answered
}

/// Checks what the project has in Redis, at once and when a janitor has come by; and that the queue
/// can be created and deleted as if nothing had been.
async fn all_is_whole(redis: &RedisServer, project: &str) {
    let stored = Stored { redis, project };
    assert!(stored.queues().is_subset(&stored.registered()), "unlisted");
    stored.no_queue_is_half_there();

    let sukkal = Sukkal::start_with(&redis.url(), &[BUSY_JANITOR]);
    poll_until("the register names just the queues that exist", || stored.queues() == stored.registered());

    let api = sukkal.project(project);
    let existed = !stored.queues().is_empty();
    let created = api.put("/v2/queues/q").send().await.unwrap();
    assert_eq!(created.status(), if existed { 204 } else { 201 });
    assert_eq!(stored.registered(), BTreeSet::from(["q".to_owned()]));
    let deleted = api.delete("/v2/queues/q").send().await.unwrap();
    assert_eq!(deleted.status(), 204);
    stored.no_queue_is_left();
}
