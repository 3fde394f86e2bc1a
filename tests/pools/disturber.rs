//! Stops pools, kills processes and moves queues while a queue in each of two pools is under load,
//! one after the other.

use std::ops::RangeInclusive;
use std::sync::Arc;

use tokio::sync::RwLock;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::mover::Move;
use super::{Deployment, HANG_TIMEOUT, POLL, eventually};
use support::random::Random;
use support::test_bed::{Server, ServerUrls};
use support::timeline::failures::Failures;

/// Operations of a queue between two steps, and of the other queue while a pool is down.
const OPERATIONS: RangeInclusive<u64> = 50..=400;
/// The choices of the disturber.
const ROLE: u64 = 100;

/// A queue under load.
pub(crate) trait Load: Send + Sync {
    fn project(&self) -> &str;

    fn queue(&self) -> &str;

    /// Returns the time of the clock with which requests are recorded.
    fn now(&self) -> u64;

    /// Returns the number of operations that have succeeded so far.
    fn done(&self) -> u64;

    fn failures(&self) -> &Failures;
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// A pool crashes and is restarted.
    Crash(usize),
    /// A pool does not reply for a while.
    Hang(usize),
    /// A process is killed and replaced.
    Replace,
    /// The queue with this number moves to the other pool. Meanwhile a process may be killed.
    Move(usize, Killed),
}

/// The process that is killed during a move.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Killed {
    Nothing,
    /// The process that moves the queue.
    Mover,
    Other,
}

/// One pool or process after the other is stopped.
pub(crate) const STOPS: [Step; 5] = [Step::Crash(0), Step::Crash(1), Step::Hang(0), Step::Hang(1), Step::Replace];

/// Both queues move back and forth.
pub(crate) const MOVES: [Step; 10] = [
    Step::Move(0, Killed::Nothing),
    Step::Move(1, Killed::Nothing),
    Step::Move(0, Killed::Mover),
    Step::Move(1, Killed::Mover),
    Step::Move(0, Killed::Mover),
    Step::Move(1, Killed::Mover),
    Step::Move(0, Killed::Other),
    Step::Move(1, Killed::Other),
    Step::Replace,
    Step::Replace,
];

/// Disturbs a deployment and its processes.
pub(crate) struct Disturber<L> {
    pub(crate) deployment: Arc<Deployment>,
    /// All are taken at least once, in random order.
    pub(crate) steps: &'static [Step],
    /// The load on a queue of each pool.
    pub(crate) loads: [L; 2],
    pub(crate) servers: Vec<Server>,
    pub(crate) urls: Arc<ServerUrls>,
    /// Starts another process.
    pub(crate) start: Arc<dyn Fn() -> Server + Send + Sync>,
    /// Is locked for reading while no pool may be down and no queue may move.
    pub(crate) calm: Arc<RwLock<()>>,
}

impl<L: Load + Clone> Disturber<L> {
    /// Takes all steps, and then further ones until there was enough. Returns the processes, and
    /// the steps.
    pub(crate) async fn run(mut self, seed: u64, is_enough: impl Fn() -> bool) -> (Vec<Server>, Vec<Step>) {
        let mut random = Random::new(seed, ROLE, 0);
        let (mut steps, mut taken) = (self.steps.to_vec(), Vec::new());
        let mut pools = [0, 1];
        while !steps.is_empty() || !is_enough() {
            let number = random.below(steps.len().max(1));
            let next = if steps.is_empty() { *random.choose(self.steps).unwrap() } else { steps.swap_remove(number) };
            taken.push(next);
            for load in &self.loads {
                goes_on(load, &mut random, &format!("before the last of {taken:?}")).await;
            }
            match next {
                Step::Crash(pool) => {
                    let (stop, resume) = (self.deployment.pools[pool].clone(), self.deployment.pools[pool].clone());
                    self.stop(pool, &mut random, move || stop.kill(), move || resume.restart()).await;
                }
                Step::Hang(pool) => {
                    let (stop, resume) = (self.deployment.pools[pool].clone(), self.deployment.pools[pool].clone());
                    self.stop(pool, &mut random, move || stop.pause(), move || resume.resume()).await;
                }
                Step::Replace => {
                    let start = self.start.clone();
                    self.servers = self.urls.replace_one(self.servers, move || start()).await;
                }
                Step::Move(queue, killed) => {
                    pools[queue] = 1 - pools[queue];
                    let load = self.loads[queue].clone();
                    self = self.move_queue(&load, pools[queue], killed, &mut random).await;
                }
            }
            for load in &self.loads {
                self.until_all_serve(load).await;
            }
        }
        (self.servers, taken)
    }

    /// Stops a pool until requests for its queue have failed, and the other queue has gone on.
    /// Hardly any request for that queue fails: a busy machine may stop for longer than requests
    /// wait.
    async fn stop(
        &self,
        pool: usize,
        random: &mut Random,
        stop: impl FnOnce() + Send + 'static,
        resume: impl FnOnce() + Send + 'static,
    ) {
        let _not_calm = self.calm.write().await;
        let (own, other) = (&self.loads[pool], &self.loads[1 - pool]);
        let (own_from, other_from, done_before) = (own.now(), other.now(), other.done());
        spawn_blocking(stop).await.unwrap();
        eventually("requests to the stopped pool fail", || !own.failures().since(own_from).is_empty()).await;
        goes_on(other, random, "while the other pool is down").await;
        let (failed, done) = (other.failures().since(other_from), other.done() - done_before);
        if let Some(last) = failed.last() {
            let (queue, count) = (other.queue(), failed.len() as u64);
            assert!(count * 10 < done, "{count} requests for {queue} failed although its pool is up; the last: {last}");
        }
        spawn_blocking(resume).await.unwrap();
    }

    /// Moves a queue to this pool. The move is repeated until it succeeds.
    async fn move_queue(mut self, load: &L, pool: usize, killed: Killed, random: &mut Random) -> Self {
        let calm = self.calm.clone();
        let _not_calm = calm.write().await;
        let target = Move { project: load.project(), queue: load.queue(), pool };
        let mover = if matches!(killed, Killed::Other) { self.servers.len() - 1 } else { 0 };
        let first = target.begin(&self.servers[mover]);
        if !matches!(killed, Killed::Nothing) {
            Move::until_kill(random).await;
            let start = self.start.clone();
            // This kills the first process.
            self.servers = self.urls.replace_one(self.servers, move || start()).await;
        }
        target.finish(first, &self.servers, random).await;
        self
    }

    /// Waits until each process serves the queue.
    async fn until_all_serve(&self, load: &L) {
        let path = format!("/v2/queues/{}/stats", load.queue());
        for server in &self.servers {
            let api = server.project(load.project());
            let answers = async {
                while api.get(&path).send().await.unwrap().status() != 200 {
                    sleep(POLL).await;
                }
            };
            timeout(HANG_TIMEOUT, answers).await.unwrap_or_else(|_| panic!("{} is not served", load.queue()));
        }
    }
}

/// Waits until some operations on the queue have succeeded.
async fn goes_on(load: &impl Load, random: &mut Random, when: &str) {
    let due = load.done() + random.within(OPERATIONS);
    eventually(&format!("queue {} goes on {when}", load.queue()), || load.done() >= due).await;
}
