//! Requests that wait for messages: each subscribes to the queue, runs its query, sleeps until it
//! is notified, and runs the query again. `storage/watch.rs` explains why no message is missed.

mod shared_reads;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub(super) use self::shared_reads::{SharedQuery, SharedReads};
use super::Error;
use super::access::{Access, AdmittedStore};
use super::quotas::{ConcurrencyLimit, Quotas};
use super::range::check_range;
use sukkal_domain::{Limits, QueueId, Quota, Rank, Scope, Taken};
use sukkal_storage::{Listing, Page, Watch};

/// The requests of this process that wait.
pub(super) struct Waiting {
    /// Maximum number of seconds that a request may wait.
    wait_s_max: u32,
    pub(super) limit: ConcurrencyLimit,
    /// Canceled when requests shall wait no longer, because the service stops.
    pub(super) closing: CancellationToken,
}

impl Waiting {
    pub(super) fn new(limits: &Limits, quotas: Arc<Quotas>) -> Self {
        Self {
            wait_s_max: limits.max_wait,
            limit: ConcurrencyLimit::by_quota("requests that wait", quotas, Quota::WaitingRequests),
            closing: CancellationToken::new(),
        }
    }

    /// Checks the number of seconds that a request asks to wait; without one it does not wait.
    pub(super) fn check_duration(&self, wait_s: Option<i64>) -> Result<Duration, Error> {
        let wait_s = check_range("wait", wait_s.unwrap_or(0), 0, self.wait_s_max)?;
        Ok(Duration::from_secs(wait_s.into()))
    }

    /// Returns a page of the feed. While it is empty, waits for notifications until the given time
    /// or until the caller's credential expires, and runs the query again.
    pub(super) async fn read_until(
        &self,
        access: &Access,
        queue: &QueueId,
        listing: &Listing,
        until: Instant,
    ) -> Result<Page, Error> {
        let until = access.expiry().map_or(until, |expiry| expiry.min(until));
        let _unit = self.limit.acquire(queue.project())?;
        let watch = access.watch(queue).await?;
        let mut notifications = watch.reader(listing.scope.delayed);
        let mut progress = Progress::new(listing.after);
        loop {
            if let Some(older) = notifications.catch_up() {
                progress.restart_before(older);
            }
            let listing = Listing { after: progress.next, ..listing.clone() };
            let page = access.admit().await?.list_messages(queue, &listing).await?;
            if !page.messages.is_empty() {
                return Ok(page);
            }
            progress.continue_after(&page, listing.scope);
            access.query_finished(queue);
            tokio::select! {
                () = notifications.changed() => {}
                () = sleep_until(until) => return Ok(page),
                () = self.closing.cancelled() => return Ok(page),
            }
        }
    }

    /// Runs `take`, which claims or pops messages. While it takes nothing, waits for notifications
    /// until `wait` is over or the caller's credential expires, and runs it again. In a paused
    /// queue, this takes nothing for each notification, until the queue is resumed.
    pub(super) async fn take_within<T, F: Future<Output = Result<Taken<T>, Error>>>(
        &self,
        access: &Access,
        queue: &QueueId,
        wait: Duration,
        take: impl Fn(AdmittedStore) -> F,
    ) -> Result<Taken<T>, Error> {
        if wait.is_zero() {
            return take(access.admit().await?).await;
        }
        let until = Instant::now() + wait;
        let until = access.expiry().map_or(until, |expiry| expiry.min(until));
        let _unit = self.limit.acquire(queue.project())?;
        let watch = access.watch(queue).await?;
        let mut unused = UnusedNotification(None);
        loop {
            let mut notified = pin!(watch.worker());
            notified.as_mut().enable();
            let taken = take(access.admit().await?).await?;
            unused.0 = None;
            access.query_finished(queue);
            if matches!(taken, Taken::Messages(_)) {
                return Ok(taken);
            }
            tokio::select! {
                () = notified => unused.0 = Some(&watch),
                () = sleep_until(until) => return Ok(taken),
                () = self.closing.cancelled() => return Ok(taken),
            }
        }
    }
}

/// The positions at which the queries of one waiting reader start. Each query continues where the
/// last one ended, so that the reader's own messages are not examined again.
#[derive(Debug)]
struct Progress {
    /// The position at which the reader's request starts.
    start: Option<Rank>,
    /// The position at which the next query starts, never before `start`.
    next: Option<Rank>,
}

impl Progress {
    fn new(start: Option<Rank>) -> Self {
        Self { start, next: start }
    }

    /// Makes the next query include a message at this position.
    fn restart_before(&mut self, older: Rank) {
        self.next = self.start.max(self.next.min(Some(older.previous())));
    }

    /// Makes the next query continue after one that returned nothing.
    fn continue_after(&mut self, page: &Page, scope: Scope) {
        // Messages may still be posted in front of those that are delayed.
        let shows_delayed = scope.delayed && page.delays;
        self.next = if shows_delayed { self.start } else { self.start.max(page.reached) };
    }
}

/// A notification that was received and not used yet. It wakes one waiter only, so if this waiter
/// ends before its next query has finished, another one must get it.
struct UnusedNotification<'a>(Option<&'a Watch>);

impl Drop for UnusedNotification<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.0 {
            watch.pass_on();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rank: u64) -> Option<Rank> {
        Rank::new(rank)
    }

    fn page(delays: bool, reached: u64) -> Page {
        Page { delays, reached: at(reached), ..Page::default() }
    }

    fn scope(delayed: bool) -> Scope {
        Scope { delayed, ..Scope::default() }
    }

    #[test]
    fn a_query_continues_where_the_last_one_ended() {
        let mut progress = Progress::new(at(10));

        progress.continue_after(&page(false, 50), scope(false));
        assert_eq!(progress.next, at(50));
        progress.continue_after(&page(false, 50), scope(true));
        assert_eq!(progress.next, at(50));
    }

    #[test]
    fn a_query_restarts_before_an_older_position_but_not_before_its_own_start() {
        let mut progress = Progress::new(at(10));
        progress.continue_after(&page(false, 50), scope(false));

        progress.restart_before(Rank::new(70).unwrap());
        assert_eq!(progress.next, at(50));
        progress.restart_before(Rank::new(30).unwrap());
        assert_eq!(progress.next, at(29));
        progress.restart_before(Rank::MIN);
        assert_eq!(progress.next, at(10));
    }

    #[test]
    fn a_query_that_shows_delayed_messages_restarts() {
        let mut progress = Progress::new(None);

        progress.continue_after(&page(true, 50), scope(true));

        assert_eq!(progress.next, None);
    }
}
