//! The janitor: maintenance by one process at a time, the holder of a lease in Redis. Every few
//! seconds it visits the queues in which something is due, every hour all registered queues.
//!
//! Two janitors at once would do no harm, only more work. So if the lease cannot be read (in a
//! cluster its server may be gone), a process still applies what is due on the other servers.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::unregistered::KeyScan;
use crate::redis::RedisStore;
use crate::redis::arguments;
use crate::redis::keys;
use crate::redis::reply;
use crate::redis::script::JANITOR_LEASE;
use crate::{Error, Schedule};
use sukkal_domain::QueueId;

/// Duration of a lease that is not renewed. The holder renews it at the interval below.
const LEASE_DURATION: Duration = Duration::from_secs(9);
const RENEWAL_INTERVAL: Duration = Duration::from_secs(3);
/// Pause between two steps of a walk, which leaves the store to other operations.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// The reply to a request for the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lease {
    /// Another process holds the lease, or no maintenance is due.
    NotGranted,
    Granted {
        due: bool,
        walk: bool,
    },
}

/// The maintenance that a process has just finished.
#[derive(Clone, Copy)]
enum Finished {
    Nothing,
    Due,
    Walk,
}

impl RedisStore {
    /// Does the maintenance that is due, if this process gets the lease. Returns the number of
    /// queues visited.
    pub(super) async fn run_janitor(&self, schedule: &Schedule) -> Result<u64, Error> {
        let lease = match self.request_lease(schedule, Finished::Nothing).await {
            Err(reason) if reason.is_transient() => {
                debug!(%reason, "the janitor continues without its lease");
                Lease::Granted { due: true, walk: false }
            }
            lease => lease?,
        };
        let Lease::Granted { due, walk } = lease else {
            return Ok(0);
        };
        tokio::select! {
            visited = self.maintain_as_holder(schedule, due, walk) => visited,
            () = self.renew_lease_until_lost(schedule) => {
                debug!("another process has become the janitor");
                Ok(0)
            }
        }
    }

    async fn maintain_as_holder(&self, schedule: &Schedule, due: bool, walk: bool) -> Result<u64, Error> {
        let mut visited = 0;
        if due {
            visited += self.apply_all_due().await?;
            self.report_finished(schedule, Finished::Due).await;
        }
        if walk {
            visited += self.walk(schedule).await?;
            self.report_finished(schedule, Finished::Walk).await;
        }
        Ok(visited)
    }

    /// Registers queues whose registration was lost, then visits all registered queues, and in
    /// between those in which something is due.
    async fn walk(&self, schedule: &Schedule) -> Result<u64, Error> {
        let mut visited = 0;
        let mut next_due = Instant::now() + schedule.pause;
        let mut scan = self.begin_scan();
        while self.register_step(&mut scan).await {
            visited += self.between_steps(schedule, &mut next_due).await?;
        }
        let (mut after, mut unreachable) = (None::<QueueId>, HashSet::new());
        loop {
            let (queues, last) = self.walk_step(after.as_ref(), &mut unreachable).await?;
            visited += queues;
            after = last;
            if after.is_none() {
                return Ok(visited);
            }
            visited += self.between_steps(schedule, &mut next_due).await?;
        }
    }

    /// Registers the queues among the next keys that are not registered. Returns whether there are
    /// more keys. A server that does not answer is skipped until the next walk.
    async fn register_step(&self, scan: &mut KeyScan) -> bool {
        match self.scan_step(scan).await {
            Ok(Some(queues)) => {
                join_all(queues.iter().map(|queue| self.register_if_missing(queue))).await;
                true
            }
            Ok(None) => false,
            Err(error) => {
                warn!(%error, "the janitor cannot look for queues that are not registered on a server");
                scan.skip_server();
                true
            }
        }
    }

    /// Visits the queues in which something is due, if it is time to. Then pauses.
    async fn between_steps(&self, schedule: &Schedule, next_due: &mut Instant) -> Result<u64, Error> {
        let mut visited = 0;
        if Instant::now() >= *next_due {
            visited = self.apply_all_due().await?;
            self.report_finished(schedule, Finished::Due).await;
            *next_due = Instant::now() + schedule.pause;
        }
        sleep(STEP_PAUSE).await;
        Ok(visited)
    }

    /// Renews the lease until another process has it.
    async fn renew_lease_until_lost(&self, schedule: &Schedule) {
        loop {
            sleep(RENEWAL_INTERVAL).await;
            if let Ok(Lease::NotGranted) = self.request_lease(schedule, Finished::Nothing).await {
                return;
            }
        }
    }

    async fn report_finished(&self, schedule: &Schedule, finished: Finished) {
        if let Err(error) = self.request_lease(schedule, finished).await {
            warn!(%error, "cannot record when maintenance was done");
        }
    }

    async fn request_lease(&self, schedule: &Schedule, finished: Finished) -> Result<Lease, Error> {
        let finished = match finished {
            Finished::Nothing => "",
            Finished::Due => "due",
            Finished::Walk => "walk",
        };
        let args = vec![
            Bytes::copy_from_slice(self.id.as_bytes()),
            millis(LEASE_DURATION),
            Bytes::from_static(finished.as_bytes()),
            millis(schedule.pause),
            millis(schedule.walk),
        ];
        let mut reply = self.connection.run_on(&JANITOR_LEASE, vec![keys::JANITOR.to_owned()], args).await?;
        match reply.text()?.as_str() {
            "denied" | "idle" => Ok(Lease::NotGranted),
            "granted" => Ok(Lease::Granted { due: reply.number()? == 1, walk: reply.number()? == 1 }),
            kind => Err(reply::unknown_kind(JANITOR_LEASE.name, kind)),
        }
    }
}

fn millis(duration: Duration) -> Bytes {
    arguments::number(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
