//! Moves queues between pools, for campaigns that kill processes meanwhile.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{POLL, POOLS};
use support::random::Random;
use support::test_bed::Server;

/// Longest time until a queue has moved, although a process was killed.
const MOVE_MAX: Duration = Duration::from_secs(60);
/// Longest time from the begin of a move until a process is killed, in microseconds.
const KILL_US_MAX: u64 = 100_000;

/// The move of a queue to a pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move<'a> {
    pub(crate) project: &'a str,
    pub(crate) queue: &'a str,
    pub(crate) pool: usize,
}

impl Move<'_> {
    /// Asks a process to move the queue. Returns whether it has done so, or nothing if that is not
    /// known.
    pub(crate) fn begin(&self, by: &Server) -> JoinHandle<Option<()>> {
        let path = format!("/v2/queues/{}/move", self.queue);
        let request = by.project(self.project).post(&path, &json!({"pool": POOLS[self.pool]}));
        let request = request.header("X-Roles", "admin").timeout(MOVE_MAX).send();
        tokio::spawn(async move {
            let answer = request.await.ok()?;
            assert!(matches!(answer.status().as_u16(), 204 | 503), "the queue must not move: {answer:?}");
            (answer.status() == 204).then_some(())
        })
    }

    /// Waits until a moment during the move at which a process is killed.
    pub(crate) async fn until_kill(random: &mut Random) {
        sleep(Duration::from_micros(random.within(0..=KILL_US_MAX))).await;
    }

    /// Repeats the move until it is done.
    pub(crate) async fn finish(&self, mut last: JoinHandle<Option<()>>, servers: &[Server], random: &mut Random) {
        let began = Instant::now();
        while last.await.unwrap().is_none() {
            assert!(began.elapsed() < MOVE_MAX, "it does not happen: {self:?}");
            sleep(POLL).await;
            last = self.begin(&servers[random.below(servers.len())]);
        }
    }
}
