//! Waiting for something to turn up in a queue: watch, look, wait to be called, look again. `storage/watch.rs` says who
//! is called when, and why nothing is missed.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::{Admitted, Broker, Error, check_range};
use crate::domain::{QueueId, Rank};
use crate::storage::{Listing, Page, Scope, Watch};

/// Where the queries of a waiter that reads a feed start: each continues where the last one ended, so that a waiter does
/// not examine its own messages again.
#[derive(Debug)]
struct Progress {
    /// Where the waiter's own request starts.
    start: Option<Rank>,
    /// Where the next query starts, never before that.
    next: Option<Rank>,
}

impl Progress {
    fn new(start: Option<Rank>) -> Self {
        Self { start, next: start }
    }

    /// Goes back, so that the next query sees a message at this position.
    fn go_back_to(&mut self, older: Rank) {
        self.next = self.start.max(self.next.min(Some(older.previous())));
    }

    /// Goes on after a query that returned nothing.
    fn go_on_from(&mut self, page: &Page, scope: Scope) {
        // Messages may still be posted in front of those that are delayed.
        let shows_delayed = scope.delayed && page.delays;
        self.next = if shows_delayed { self.start } else { self.start.max(page.reached) };
    }
}

/// A call that somebody else must have who does not look for it.
struct Call<'a>(Option<&'a Watch>);

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(watch) = self.0 {
            watch.pass_on();
        }
    }
}

impl Broker {
    /// Has everybody answered who waits, with what there is; nobody waits any more from then on.
    pub fn stop_waiting(&self) {
        self.closing.cancel();
    }

    /// How long a request waits.
    pub(super) fn admit_wait(&self, wait_s: Option<i64>) -> Result<Duration, Error> {
        let wait_s = check_range("wait", wait_s.unwrap_or(0), 0, self.limits.max_wait)?;
        Ok(Duration::from_secs(wait_s.into()))
    }

    /// Returns a page of the feed. While it is empty, waits for notifications until the given time, and runs the query
    /// again.
    pub(super) async fn look_until(&self, queue: &QueueId, listing: &Listing, until: Instant) -> Result<Page, Error> {
        let _share = self.waits.take(queue.project())?;
        let watch = self.store.watch(queue).await?;
        let mut notifications = watch.reader(listing.scope.delayed);
        let mut progress = Progress::new(listing.after);
        loop {
            if let Some(older) = notifications.catch_up() {
                progress.go_back_to(older);
            }
            let listing = Listing { after: progress.next, ..listing.clone() };
            let page = self.admitted(queue).await?.list_messages(queue, &listing).await?;
            if !page.messages.is_empty() {
                return Ok(page);
            }
            progress.go_on_from(&page, listing.scope);
            self.store.looked(queue);
            tokio::select! {
                () = notifications.changed() => {}
                () = sleep_until(until) => return Ok(page),
                () = self.closing.cancelled() => return Ok(page),
            }
        }
    }

    /// What a look for free messages has found, which one caller alone can have; looks as long as it finds nothing and
    /// the time is not over.
    pub(super) async fn look_in_turn<T, F: Future<Output = Result<Option<T>, Error>>>(
        &self,
        queue: &QueueId,
        wait: Duration,
        look: impl Fn(Admitted) -> F,
    ) -> Result<Option<T>, Error> {
        if wait.is_zero() {
            return look(self.admitted(queue).await?).await;
        }
        let until = Instant::now() + wait;
        let _share = self.waits.take(queue.project())?;
        let watch = self.store.watch(queue).await?;
        let mut call = Call(None);
        loop {
            let mut called = pin!(watch.claimer());
            called.as_mut().enable();
            let found = look(self.admitted(queue).await?).await?;
            call.0 = None;
            self.store.looked(queue);
            if found.is_some() {
                return Ok(found);
            }
            tokio::select! {
                () = called => call.0 = Some(&watch),
                () = sleep_until(until) => return Ok(None),
                () = self.closing.cancelled() => return Ok(None),
            }
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

        progress.go_on_from(&page(false, 50), scope(false));
        assert_eq!(progress.next, at(50));
        progress.go_on_from(&page(false, 50), scope(true));
        assert_eq!(progress.next, at(50));
    }

    #[test]
    fn a_query_goes_back_to_an_older_position_but_not_before_its_own_start() {
        let mut progress = Progress::new(at(10));
        progress.go_on_from(&page(false, 50), scope(false));

        progress.go_back_to(Rank::new(70).unwrap());
        assert_eq!(progress.next, at(50));
        progress.go_back_to(Rank::new(30).unwrap());
        assert_eq!(progress.next, at(29));
        progress.go_back_to(Rank::MIN);
        assert_eq!(progress.next, at(10));
    }

    #[test]
    fn a_query_that_shows_delayed_messages_starts_anew() {
        let mut progress = Progress::new(None);

        progress.go_on_from(&page(true, 50), scope(true));

        assert_eq!(progress.next, None);
    }
}
