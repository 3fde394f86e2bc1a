//! The janitor is killed at each of its store calls: the next one finishes its work.

use super::work::{Fate, QueueContents, verify};
use super::{PROJECT, RequestOutcome, Scene, at_each_call, start_with_janitor};
use crate::faults::gate::{Gate, KillPoint};
use support::redis::Reply;
use support::waiting::until;

const UNUSED_NAME: &str = "a-ghost";
/// Copies the database to another one of the same server.
const SAVE: &str = "for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 1) end";
/// Replaces the database by the copy.
const RESTORE: &str = "redis.call('FLUSHDB')
    redis.call('SELECT', 1)
    for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('COPY', key, key, 'DB', 0) end";

#[tokio::test]
async fn a_killed_janitor_loses_no_dead_letter() {
    // Dead letters, their new queue and a name without a queue.
    kill_janitors_at_each_call(10, async |_| {}, Fate::Kept).await;
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

    // Dead letters, their new queue and two names without a queue.
    kill_janitors_at_each_call(14, delete, Fate::Deleted).await;
}

/// Starts a janitor that finds waiting dead letters and a name without a queue, and kills it at
/// each call, of which there are at least `calls_min`. Checks the messages: all but the dead
/// letters have the fate.
async fn kill_janitors_at_each_call(calls_min: usize, interfere: impl AsyncFn(&Scene), fate: Fate) {
    let fate = |name: &str| if name.starts_with("tried") { Fate::Kept } else { fate };
    let begin = async |scene: &Scene| {
        let contents = prepare(scene).await;
        interfere(scene).await;
        scene.forget_maintenance();
        evaluate(scene, SAVE);
        // This run is undisturbed, so that Redis knows the scripts.
        let _janitor = start_with_janitor(scene.redis.url(), &[]).await;
        until("the janitor is done", async || all_is_done(scene)).await;
        contents
    };
    at_each_call(PROJECT, calls_min, begin, async |scene, contents, call| {
        let mut was_killed = false;
        for kill_point in [KillPoint::BeforeCall(call), KillPoint::BeforeReply(call)] {
            evaluate(scene, RESTORE);
            let gate = Gate::start(scene.redis.port(), PROJECT);
            gate.hold_at(kill_point);
            let mut sukkal = start_with_janitor(gate.url(), &[]).await;
            let is_over = async || gate.has_happened() || all_is_done(scene);
            until("the janitor is done or interrupted", is_over).await;
            was_killed = gate.has_happened();
            sukkal.kill();

            scene.stored().assert_consistent();
            scene.forget_maintenance();
            let next = start_with_janitor(scene.redis.url(), &[]).await;
            until("the next janitor has finished that", async || all_is_done(scene)).await;
            let api = next.project(PROJECT);
            verify(scene, &RequestOutcome { kill_point, answer: None, _next: next, api }, contents, &fate, &[]).await;
        }
        was_killed
    })
    .await;
}

async fn prepare(scene: &Scene) -> QueueContents {
    let sukkal = scene.start_without_janitor(scene.redis.url(), &[]).await;
    let contents = QueueContents::prepare_dead_letters(&scene.redis, &sukkal.project(PROJECT)).await;
    scene.redis.command(&["ZADD", &format!("sukkal:{{{PROJECT}}}:queues"), "0", &format!("{UNUSED_NAME}\x001")]);
    contents
}

fn evaluate(scene: &Scene, script: &str) {
    assert_eq!(scene.redis.command(&["EVAL", script, "0"]), Reply::Bulk(None));
}

fn all_is_done(scene: &Scene) -> bool {
    let stored = scene.stored();
    stored.outbox_length("work") == 0 && stored.registered() == stored.queues()
}
