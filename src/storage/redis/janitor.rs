//! Maintenance by one process at a time, which a lease in Redis appoints: every few seconds the queues in which
//! something is due, every hour all registered queues.
//!
//! Two processes at once would do no harm, only more work. So without an answer about the lease (in a cluster the server that
//! has it may be gone) a process goes on with the due queues of the others.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::RedisStore;
use super::keys;
use super::messages::text;
use super::reply;
use super::script::JANITOR_LEASE;
use crate::domain::QueueId;
use crate::storage::{Error, Schedule};

/// How long a lease lasts that is not renewed, and how often it is renewed.
const LEASE: Duration = Duration::from_secs(9);
const RENEWED_EVERY: Duration = Duration::from_secs(3);
/// How long it leaves the store to others between two steps of a walk.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// What the lease allows a process to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Nothing: another process does it, or nothing is to be done.
    Rest,
    Work {
        due: bool,
        walk: bool,
    },
}

/// What a process has just finished.
#[derive(Clone, Copy)]
enum Finished {
    Nothing,
    Due,
    Walk,
}

impl RedisStore {
    /// Does what is to be done now, if it is this process's turn. Returns how many queues it has visited.
    pub(super) async fn take_turn(&self, schedule: &Schedule) -> Result<u64, Error> {
        let turn = match self.ask_for_turn(schedule, Finished::Nothing).await {
            Err(reason) if reason.is_passing() => {
                debug!(%reason, "the janitor works without its lease");
                Turn::Work { due: true, walk: false }
            }
            turn => turn?,
        };
        let Turn::Work { due, walk } = turn else {
            return Ok(0);
        };
        tokio::select! {
            visited = self.work(schedule, due, walk) => visited,
            () = self.hold_lease(schedule) => {
                debug!("another process goes on as the janitor");
                Ok(0)
            }
        }
    }

    async fn work(&self, schedule: &Schedule, due: bool, walk: bool) -> Result<u64, Error> {
        let mut visited = 0;
        if due {
            visited += self.apply_due().await?;
            self.finish(schedule, Finished::Due).await;
        }
        if walk {
            visited += self.walk(schedule).await?;
            self.finish(schedule, Finished::Walk).await;
        }
        Ok(visited)
    }

    /// Visits all registered queues, and meanwhile those in which something is due.
    async fn walk(&self, schedule: &Schedule) -> Result<u64, Error> {
        let (mut visited, mut reached, mut away) = (0, None::<QueueId>, HashSet::new());
        let mut next_due = Instant::now() + schedule.pause;
        loop {
            let (queues, last) = self.walk_step(reached.as_ref(), &mut away).await?;
            visited += queues;
            reached = last;
            if reached.is_none() {
                return Ok(visited);
            }
            if Instant::now() >= next_due {
                visited += self.apply_due().await?;
                self.finish(schedule, Finished::Due).await;
                next_due = Instant::now() + schedule.pause;
            }
            sleep(STEP_PAUSE).await;
        }
    }

    /// Renews the lease until another process has it.
    async fn hold_lease(&self, schedule: &Schedule) {
        loop {
            sleep(RENEWED_EVERY).await;
            if let Ok(Turn::Rest) = self.ask_for_turn(schedule, Finished::Nothing).await {
                return;
            }
        }
    }

    async fn finish(&self, schedule: &Schedule, finished: Finished) {
        if let Err(error) = self.ask_for_turn(schedule, finished).await {
            warn!(%error, "cannot record when maintenance was done");
        }
    }

    async fn ask_for_turn(&self, schedule: &Schedule, finished: Finished) -> Result<Turn, Error> {
        let finished = match finished {
            Finished::Nothing => "",
            Finished::Due => "due",
            Finished::Walk => "walk",
        };
        let args = vec![
            Bytes::copy_from_slice(self.id.as_bytes()),
            millis(LEASE),
            Bytes::from_static(finished.as_bytes()),
            millis(schedule.pause),
            millis(schedule.walk),
        ];
        let mut reply = self.connection.run_on(&JANITOR_LEASE, vec![keys::JANITOR.to_owned()], args).await?;
        match reply.text()?.as_str() {
            "taken" | "rest" => Ok(Turn::Rest),
            "due" => Ok(Turn::Work { due: reply.number()? == 1, walk: reply.number()? == 1 }),
            kind => Err(reply::unknown(JANITOR_LEASE.name, kind)),
        }
    }
}

fn millis(duration: Duration) -> Bytes {
    text(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
