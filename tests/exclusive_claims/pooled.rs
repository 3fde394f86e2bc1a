//! Workers use a queue in each of two pools at the same time. The dead letters of each queue go to
//! the other pool. One pool after the other is stopped and restarted, and a process is killed. The
//! queue in the other pool goes on meanwhile. Or the queues move between the pools.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::actors::TestContext;
use super::coordinator::Coordinator;
use super::wire::{PROJECT, Wire};
use super::{
    CAMPAIGN, DEAD_LETTER_TTL_S, Kind, MOVES_MIN, RUN_TIMEOUT, Rules, SERVERS, Setup, check, length_s, outbox_length,
    run, settings, start_server,
};
use crate::pools::{Deployment, Disturber, Load, MOVES, STOPS, Step};
use support::sukkal::Sukkal;
use support::test_bed::{ServerUrls, TestBed};
use support::timeline::disturbances;
use support::timeline::failures::Failures;
use support::{random, report};

/// The queues, in the order of their pools, and the queues of their dead letters.
const QUEUES: [(&str, &str); 2] = [("work-a", "letters-a"), ("work-b", "letters-b")];
/// Longest duration of the steps that are taken in any case.
const STEPS_TIMEOUT: Duration = Duration::from_secs(240);

impl Load for TestContext {
    fn project(&self) -> &str {
        PROJECT
    }

    fn queue(&self) -> &str {
        &self.wire.queue
    }

    fn now(&self) -> u64 {
        self.coordinator.now()
    }

    fn done(&self) -> u64 {
        self.coordinator.progress().borrow().claims
    }

    fn failures(&self) -> &Failures {
        &self.coordinator.failures
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_in_pools_that_stop_and_return() {
    check_two_pools("pooled", Kind::Plain, &STOPS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_of_a_fair_queue_is_under_one_live_claim_in_pools_that_stop_and_return() {
    check_two_pools("pooled, fair", Kind::Fair, &STOPS).await;
}

/// The queues move back and forth, and the processes that move them are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_under_one_live_claim_while_its_queue_moves() {
    check_two_pools("moves", Kind::Plain, &MOVES).await;
}

async fn check_two_pools(name: &str, kind: Kind, steps: &'static [Step]) {
    let length = Duration::from_secs(length_s());
    let seed = random::seed();
    let deployment = Arc::new(Deployment::start(&[1, 1]).await);
    let server = deployment.serve();
    let create = |pool| create_queues(&deployment, &server, pool, kind, steps);
    let setups = [create(0).await, create(1).await];
    drop(server);
    let bed = setups[0].0.store.clone();
    let start = Arc::new(move || start_server(&bed));
    let servers: Vec<_> = (0..SERVERS).map(|_| start()).collect();
    let urls = Arc::new(ServerUrls::of(&servers));
    let calm = Arc::default();
    let loads = QUEUES.map(|(queue, _)| TestContext {
        seed,
        wire: Arc::new(Wire::new(queue, urls.clone())),
        coordinator: Arc::new(Coordinator::new(usize::MAX)),
        calm: Arc::clone(&calm),
    });
    let coordinators = loads.each_ref().map(|load| load.coordinator.clone());
    let (last_urls, last_start) = (urls.clone(), start.clone());
    let disturber =
        Disturber { deployment: deployment.clone(), steps, loads: loads.clone(), servers, urls, start, calm };
    let (steps_taken, taken) = oneshot::channel();
    let moving = coordinators.clone();
    let disturbances = disturbances(async move {
        let started = Instant::now();
        let is_enough = || {
            let have_moved = moving.iter().all(|one| one.progress().borrow().moves >= MOVES_MIN);
            started.elapsed() >= length && (have_moved || started.elapsed() >= RUN_TIMEOUT / 2)
        };
        let (mut servers, taken) = disturber.run(seed, is_enough).await;
        for coordinator in &coordinators {
            coordinator.update(|progress| progress.over = true);
        }
        drop(steps_taken.send(taken));
        for coordinator in &coordinators {
            coordinator.wait_until_idle().await;
        }
        // A server may have answered pops whose messages it could not delete while their pool was
        // down. It deletes them before it stops.
        let last = vec![spawn_blocking(move || last_start()).await.expect("another server starts")];
        last_urls.set(&last);
        for server in &mut servers {
            server.stop().await;
        }
        last
    });

    let runs = loads
        .iter()
        .zip(setups)
        .map(|(context, (setup, rules))| run(context, setup, (rules, kind), disturbances.clone()));
    let histories = timeout(length + STEPS_TIMEOUT + RUN_TIMEOUT, join_all(runs)).await.expect("the test ends in time");

    let checked: Vec<_> =
        loads.iter().zip(&histories).map(|(context, history)| check(name, context, history)).collect();
    let taken = taken.await.expect("the steps were taken");
    for ((queue, _), (claims, details)) in QUEUES.iter().zip(checked) {
        report::checked(CAMPAIGN, name, claims, format!("{queue}: {details}, steps {taken:?}"));
    }
}

/// Creates the queue of a pool, and the queue of its dead letters in the other pool.
async fn create_queues(
    deployment: &Deployment,
    server: &Sukkal,
    pool: usize,
    kind: Kind,
    steps: &[Step],
) -> (Setup, Rules) {
    let pools = deployment.pools.clone();
    let (queue, dead_letters) = QUEUES[pool];
    let setup = Setup {
        store: deployment.bed(pool, steps),
        dead_letter_store: TestBed::redis(&pools[1 - pool].url()),
        dead_letters: dead_letters.to_owned(),
        dead_letter_ttl_s: Some(DEAD_LETTER_TTL_S),
        outbox_length: Arc::new(move || pools.iter().map(|pool| outbox_length(pool, queue)).sum()),
    };
    let (rules, metadata) = settings(&setup, kind);
    deployment.create_in(1 - pool, server, (PROJECT, dead_letters), &json!({})).await;
    deployment.create_in(pool, server, (PROJECT, queue), &metadata).await;
    (setup, rules)
}
