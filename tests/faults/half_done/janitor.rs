//! The janitor is killed at each of its store calls: the next one finishes its work.

use tokio::time::{Duration, sleep};

use super::work::{Fate, QueueContents, verify};
use super::{BUSY_JANITOR, BUSY_WALK, CALLS_MAX, KillPoint, PROJECT, RequestOutcome, Scene, arm};
use crate::faults::gate::Gate;
use crate::support::redis::block_until;
use crate::support::sukkal::{Api, Sukkal};

const UNUSED_NAME: &str = "a-ghost";

#[tokio::test]
async fn a_killed_janitor_loses_no_dead_letter() {
    let calls = kill_janitors_at_each_call(async |_| {}, Fate::Kept).await;

    assert!(calls >= 10, "dead letters, their new queue and a name without a queue need more than {calls} calls");
}

#[tokio::test]
async fn a_killed_janitor_loses_no_dead_letter_of_a_deleted_queue() {
    // The state after a deletion that crashed before it forwarded the dead letters.
    let delete = async |scene: &Scene| {
        let parts = ["queue", "messages", "ready", "delayed", "in_flight", "expirations", "leases", "claims"];
        let keys = parts.map(|part| format!("sukkal:{{{PROJECT}/work}}:{part}"));
        let words: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        scene.redis.command(&words);
    };

    let calls = kill_janitors_at_each_call(delete, Fate::Deleted).await;

    assert!(calls >= 14, "dead letters, their new queue and two names without a queue need more than {calls} calls");
}

/// Starts a janitor that finds waiting dead letters and a name without a queue, and kills it at
/// each call. Checks the messages: all but the dead letters have the fate.
async fn kill_janitors_at_each_call(interfere: impl AsyncFn(&Scene), fate: Fate) -> usize {
    let scene = Scene::start(PROJECT);
    let fate = |name: &str| if name.starts_with("tried") { Fate::Kept } else { fate };
    for call in 0..CALLS_MAX {
        let mut finished = false;
        for kill_point in [KillPoint::BeforeCall(call), KillPoint::BeforeReply(call)] {
            let contents = prepare(&scene).await;
            interfere(&scene).await;
            scene.forget_maintenance();
            let gate = Gate::start(scene.redis.port(), PROJECT);
            arm(&gate, kill_point);
            let mut sukkal = Sukkal::start_with(&gate.url(), &[BUSY_JANITOR, BUSY_WALK]);
            while !gate.has_happened() && !all_is_done(&scene) {
                sleep(Duration::from_millis(1)).await;
            }
            finished = !gate.has_happened();
            sukkal.kill();

            scene.stored().assert_consistent();
            scene.forget_maintenance();
            let next = Sukkal::start_with(&scene.redis.url(), &[BUSY_JANITOR, BUSY_WALK]);
            block_until("the next janitor has finished that", || all_is_done(&scene));
            let api = next.project(PROJECT);
            verify(&scene, &RequestOutcome { kill_point, answer: None, _next: next, api }, &contents, &fate, &[]).await;
        }
        if finished {
            return call;
        }
    }
    panic!("it makes more calls than that");
}

async fn prepare(scene: &Scene) -> QueueContents {
    scene.redis.command(&["FLUSHALL"]);
    let sukkal = Sukkal::start_without_janitor(&scene.redis, &scene.redis.url(), &[]);
    let api: Api = sukkal.project(PROJECT);
    let contents = QueueContents::prepare_dead_letters(&scene.redis, &api).await;
    scene.redis.command(&["ZADD", &format!("sukkal:{{{PROJECT}}}:queues"), "0", &format!("{UNUSED_NAME}\x001")]);
    contents
}

fn all_is_done(scene: &Scene) -> bool {
    let stored = scene.stored();
    stored.outbox_length("work") == 0 && stored.registered() == stored.queues()
}
