//! Two races at the same time, on queues in two pools. One pool after the other is stopped and
//! restarted, and a process is killed. The queue in the other pool goes on meanwhile. Or the queues
//! move between the pools.

use std::sync::Arc;

use futures::future::join_all;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::actors::RaceContext;
use super::wire::Wire;
use super::{CAMPAIGN, LARGE_LIMITS, PLAIN, RACE_TIMEOUT, SERVERS, check, observed, run};
use crate::pools::{Deployment, Disturber, Load, MOVES, STOPS, Step};
use support::test_bed::ServerUrls;
use support::timeline::disturbances;
use support::timeline::failures::Failures;
use support::{random, report};

/// Number of deliveries of each queue.
const OBSERVED: usize = 10_000;
/// The queues, in the order of their pools.
const QUEUES: [&str; 2] = ["feed-a", "feed-b"];

impl Load for RaceContext {
    fn project(&self) -> &str {
        Wire::project()
    }

    fn queue(&self) -> &str {
        &self.wire.queue
    }

    fn now(&self) -> u64 {
        self.coordinator.now()
    }

    fn done(&self) -> u64 {
        self.coordinator.observed() as u64
    }

    fn failures(&self) -> &Failures {
        &self.coordinator.failures
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_complete_feeds_from_pools_that_stop_and_return() {
    race_in_two_pools("pooled", Deployment::start(&[1, 1]).await, SERVERS, &STOPS).await;
}

/// The embedded management store belongs to one process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_complete_feeds_from_pools_of_one_process() {
    race_in_two_pools("pooled-embedded", Deployment::embedded(2), 1, &STOPS).await;
}

/// The queues move back and forth, and the processes that move them are killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_observer_reads_the_same_complete_feeds_while_the_queues_move() {
    race_in_two_pools("moves", Deployment::start(&[1, 1]).await, SERVERS, &MOVES).await;
}

async fn race_in_two_pools(name: &str, deployment: Deployment, processes: usize, steps: &'static [Step]) {
    let seed = random::seed();
    let (deployment, target) = (Arc::new(deployment), observed(OBSERVED));
    let server = deployment.serve();
    for (pool, queue) in QUEUES.iter().enumerate() {
        deployment.create_in(pool, &server, (Wire::project(), queue), &json!({})).await;
    }
    drop(server);
    let beds = [0, 1].map(|pool| deployment.bed(pool, steps));
    let bed = beds[0].clone();
    let start = Arc::new(move || bed.serve(&LARGE_LIMITS));
    let servers: Vec<_> = (0..processes).map(|_| start()).collect();
    let urls = Arc::new(ServerUrls::of(&servers));
    let end = CancellationToken::new();
    let loads = QUEUES.map(|queue| {
        let wire = Wire::new(queue, urls.clone());
        RaceContext::new(seed, PLAIN, wire, (target, Some(end.clone())))
    });
    let coordinators = loads.each_ref().map(|load| load.coordinator.clone());
    let disturber = Disturber {
        deployment: deployment.clone(),
        steps,
        loads: loads.clone(),
        servers,
        urls,
        start,
        calm: Arc::default(),
    };
    let (steps_taken, taken) = oneshot::channel();
    let disturbances = disturbances(async move {
        // The races end after a panic, too.
        let _end = end.drop_guard();
        let is_enough = || coordinators.iter().all(|coordinator| coordinator.percent() >= 100);
        let (servers, taken) = disturber.run(seed, is_enough).await;
        drop(steps_taken.send(taken));
        servers
    });

    let races = loads.iter().zip(beds).map(|(context, bed)| run(context, bed, disturbances.clone()));
    let histories = timeout(RACE_TIMEOUT, join_all(races)).await.expect("the races end in time");

    let checked: Vec<_> =
        loads.iter().zip(&histories).map(|(context, history)| check(name, context, history, target)).collect();
    let taken = taken.await.expect("the steps were taken");
    for (queue, (summary, details)) in QUEUES.iter().zip(checked) {
        report::checked(CAMPAIGN, name, summary.observed, format!("{queue}: {details}, steps {taken:?}"));
    }
}
