//! The janitor, killed at each of its store calls: the next one finishes its work.

use tokio::time::{Duration, sleep};

use super::work::{Fate, World, judge};
use super::{BUSY_JANITOR, BUSY_WALK, CALLS_MAX, Crash, Death, NO_JANITOR, PROJECT, Scene, arm};
use crate::faults::gate::Gate;
use crate::support::redis::poll_until;
use crate::support::sukkal::{Api, Sukkal};

const GHOST: &str = "a-ghost";

#[tokio::test]
async fn a_killed_janitor_loses_no_dead_letter() {
    let calls = kill_janitors_at_each_call(async |_| {}, Fate::Kept).await;

    assert!(calls >= 10, "letters, their new queue and a name without a queue take more than {calls} calls");
}

#[tokio::test]
async fn a_killed_janitor_loses_no_dead_letter_of_a_deleted_queue() {
    // As if whoever deleted it had died before it took care of the letters.
    let delete = async |scene: &Scene| {
        let parts = ["queue", "messages", "ready", "delayed", "in_flight", "expirations", "leases", "claims"];
        let keys = parts.map(|part| format!("sukkal:{{{PROJECT}/work}}:{part}"));
        let words: Vec<&str> = ["DEL"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        scene.redis.command(&words);
    };

    let calls = kill_janitors_at_each_call(delete, Fate::Doomed).await;

    assert!(calls >= 14, "letters, their new queue and two names without a queue take more than {calls} calls");
}

/// Starts a janitor that finds letters that wait and a name without a queue, kills it at each call, and
/// checks what has become of the messages; all but the letters have the fate.
async fn kill_janitors_at_each_call(interfere: impl AsyncFn(&Scene), fate: Fate) -> usize {
    let scene = Scene::start(PROJECT);
    let fate = |name: &str| if name.starts_with("tried") { Fate::Kept } else { fate };
    for call in 0..CALLS_MAX {
        let mut finished = false;
        for death in [Death::BeforeCall(call), Death::BeforeReply(call)] {
            let world = prepare(&scene).await;
            interfere(&scene).await;
            let gate = Gate::start(scene.redis.port(), PROJECT);
            arm(&gate, death);
            let mut sukkal = Sukkal::start_with(&gate.url(), &[BUSY_JANITOR, BUSY_WALK]);
            while !gate.has_happened() && !all_is_done(&scene) {
                sleep(Duration::from_millis(1)).await;
            }
            finished = !gate.has_happened();
            sukkal.kill();
            scene.end_lease();

            scene.stored().all_fits_together();
            // As if the lease of the dead one were over.
            scene.redis.command(&["DEL", "sukkal:{janitor}"]);
            let next = Sukkal::start_with(&scene.redis.url(), &[BUSY_JANITOR, BUSY_WALK]);
            poll_until("the next janitor has finished that", || all_is_done(&scene));
            let api = next.project(PROJECT);
            judge(&scene, &Crash { death, answer: None, _next: next, api }, &world, &fate, &[]).await;
        }
        if finished {
            return call;
        }
    }
    panic!("it makes more calls than that");
}

async fn prepare(scene: &Scene) -> World {
    scene.redis.command(&["FLUSHALL"]);
    let sukkal = Sukkal::start_with(&scene.redis.url(), &[NO_JANITOR]);
    let api: Api = sukkal.project(PROJECT);
    let world = World::prepare_letters(&scene.redis, &api).await;
    scene.redis.command(&["ZADD", &format!("sukkal:{{{PROJECT}}}:queues"), "0", &format!("{GHOST}\x001")]);
    world
}

fn all_is_done(scene: &Scene) -> bool {
    let stored = scene.stored();
    stored.letters_waiting("work") == 0 && stored.registered() == stored.queues()
}
