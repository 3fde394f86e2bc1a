//! What one connection does: post, or follow a feed, or claim and delete, at its pace until the end.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::alarm::Alarm;
use super::answers::{Claimed, Page};
use super::connection::{Connection, Failure};
use super::pacing::Pace;
use super::tally::{Kind, Tally, Window};
use super::target::Outgoing;
use super::traffic::Traffic;

/// Before a connection is tried again that could not be opened.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// What all connections of a thread share.
pub(super) struct Desk {
    pub(super) traffic: Arc<Traffic>,
    /// Messages a post.
    pub(super) batch: u64,
    pub(super) window: Window,
    pub(super) alarm: Alarm,
    pub(super) tallies: RefCell<[Tally; Kind::ALL.len()]>,
    pub(super) live: Arc<Live>,
}

/// What a thread lets others see while it works.
#[derive(Debug, Default)]
pub(super) struct Live {
    answered: AtomicU64,
    failed: AtomicU64,
}

impl Live {
    /// Requests answered and failed so far in all threads, the warm-up's too.
    pub(super) fn sum(threads: &[Arc<Self>]) -> (u64, u64) {
        let sum = |count: fn(&Self) -> &AtomicU64| threads.iter().map(|live| count(live).load(Ordering::Relaxed)).sum();
        (sum(|live| &live.answered), sum(|live| &live.failed))
    }
}

/// A connection with its work.
pub(super) struct Worker {
    kind: Kind,
    /// Counts the connections of its kind.
    index: usize,
    connection: Connection,
    pace: Pace,
    desk: Rc<Desk>,
}

impl Desk {
    fn tally(&self, kind: Kind, note: impl FnOnce(&mut Tally)) {
        note(&mut self.tallies.borrow_mut()[kind as usize]);
    }

    fn answered(&self, kind: Kind, due: Instant, now: Instant, messages: u64) {
        self.tally(kind, |tally| tally.answered(&self.window, due, now, messages));
        self.live.answered.fetch_add(1, Ordering::Relaxed);
    }

    fn failed(&self, kind: Kind, now: Instant, failure: Failure, requests: u64) {
        self.tally(kind, |tally| tally.failed(&self.window, now, failure, requests));
        self.live.failed.fetch_add(requests, Ordering::Relaxed);
    }
}

impl Worker {
    pub(super) fn new(kind: Kind, index: usize, connection: Connection, pace: Pace, desk: &Rc<Desk>) -> Self {
        Self { kind, index, connection, pace, desk: desk.clone() }
    }

    /// Works until the end of the run.
    pub(super) async fn work(mut self) {
        let desk = self.desk.clone();
        match self.kind {
            Kind::Produce => self.produce(&desk).await,
            Kind::Observe => self.observe(&desk).await,
            Kind::Claim | Kind::Delete => self.claim(&desk).await,
        }
        desk.failed(self.kind, desk.window.end, Failure::NeverSent, self.pace.missed());
    }

    async fn produce(&mut self, desk: &Desk) {
        let mut chance = fastrand::Rng::new();
        while let Some(due) = self.pace.turn(&desk.alarm).await {
            let post = desk.traffic.any_queue(&mut chance).post();
            self.ask(Kind::Produce, due, post, |_| Some((desk.batch, ()))).await;
        }
    }

    async fn observe(&mut self, desk: &Desk) {
        let queue = desk.traffic.queue(self.index);
        let mut next = queue.first_page();
        while let Some(due) = self.pace.turn(&desk.alarm).await {
            let read = |answer: &[u8]| {
                let page = Page::read(answer)?;
                let is_end = page.messages() == 0;
                let next = if is_end { queue.first_page() } else { queue.page_behind(page.marker()?)? };
                Some((page.messages(), next))
            };
            // What fails is asked for again.
            next = self.ask(Kind::Observe, due, next.clone(), read).await.unwrap_or(next);
        }
    }

    async fn claim(&mut self, desk: &Desk) {
        let mut round = self.index..;
        while let (Some(due), Some(n)) = (self.pace.turn(&desk.alarm).await, round.next()) {
            let queue = desk.traffic.queue(n);
            let read = |answer: &[u8]| {
                let claimed = Claimed::read(answer)?;
                let delete = if claimed.messages() == 0 { None } else { Some(queue.delete(claimed.ids())?) };
                Some((claimed.messages(), delete.map(|delete| (claimed.messages(), delete))))
            };
            if let Some((messages, delete)) = self.ask(Kind::Claim, due, queue.claim(), read).await.flatten() {
                self.ask(Kind::Delete, Instant::now(), delete, |_| Some((messages, ()))).await;
            }
        }
    }

    /// Makes a request and counts what comes of it; `read` tells the answer's messages, and what it is asked for.
    async fn ask<T>(
        &mut self,
        kind: Kind,
        due: Instant,
        request: Outgoing,
        read: impl FnOnce(&[u8]) -> Option<(u64, T)>,
    ) -> Option<T> {
        let outcome = self.connection.exchange(request).await;
        let now = Instant::now();
        match outcome.and_then(|_| read(self.connection.answer()).ok_or(Failure::Unreadable)) {
            Ok((messages, found)) => {
                self.desk.answered(kind, due, now, messages);
                Some(found)
            }
            Err(failure) => {
                self.desk.failed(kind, now, failure, 1);
                if let Failure::Connect(_) = failure {
                    sleep(RECONNECT_PAUSE).await;
                }
                None
            }
        }
    }
}
