//! Workers of a race, which take messages as fast as they can.

use std::collections::HashSet;

use tokio::time::timeout;
use uuid::Uuid;

use super::actors::{PAUSE_MAX, RaceContext, Role};
use super::coordinator::Phase;
use super::history::{Delete, History, Span};

/// Number of messages in a page of the last reading.
const PAGE: usize = 100;

/// What a worker did.
#[derive(Default)]
pub(super) struct Work {
    pub(super) deletes: Vec<Delete>,
    /// Pops without a response. Each may have deleted messages whose ids nobody knows.
    pub(super) unknown_pops: Vec<UnknownPop>,
}

#[derive(Clone)]
pub(super) struct UnknownPop {
    invoked: u64,
    count_max: usize,
}

impl RaceContext {
    /// Takes messages as fast as it can: claims and deletes them, or pops them.
    pub(super) async fn work(self, number: usize) -> Work {
        let mut random = self.random(Role::Worker, number);
        let client = Uuid::from_u128(0xd000 + number as u128);
        let mut progress = self.coordinator.progress();
        let mut work = Work::default();
        while progress.borrow_and_update().phase == Phase::Racing {
            let limit = usize::try_from(random.within(1..=20)).expect("it is small");
            let pops = random.one_in(2);
            let mut invoked = self.coordinator.now();
            let taken = if pops {
                self.wire.pop(&client, &mut random, limit).await
            } else {
                self.wire.claim(&client, &mut random, limit).await
            };
            let ids = match taken {
                Ok(ids) => ids,
                Err(unknown) => {
                    self.coordinator.record_unknown(invoked, &unknown);
                    if pops {
                        work.unknown_pops.push(UnknownPop { invoked, count_max: limit });
                    }
                    continue;
                }
            };
            if ids.is_empty() {
                let _more = timeout(PAUSE_MAX, progress.changed()).await;
                continue;
            }
            let mut answered = Some(self.coordinator.now());
            if !pops {
                invoked = self.coordinator.now();
                let outcome = self.wire.delete_claimed(&client, &mut random, &ids).await;
                answered = outcome.is_ok().then(|| self.coordinator.now());
                if let Err(unknown) = outcome {
                    self.coordinator.record_unknown(invoked, &unknown);
                }
            }
            work.deletes.push(Delete { span: Span { invoked, answered }, ids });
        }
        work
    }

    /// Reads the whole queue, and returns the deletion of the messages that are gone although no
    /// known deletion has them: pops without a response must have deleted them. Panics if these are
    /// more than the pops can have deleted.
    pub(super) async fn deleted_by(&self, pops: &[UnknownPop], history: &History) -> Delete {
        let History { posts, pages, deletes, .. } = history;
        let mut gone: HashSet<Uuid> = posts.iter().flat_map(|post| &post.ids).copied().collect();
        // A post without a response may have been stored.
        gone.extend(pages.iter().flat_map(|page| &page.messages).map(|seen| seen.id));
        for id in deletes.iter().flat_map(|delete| &delete.ids) {
            gone.remove(id);
        }
        let (mut random, mut marker) = (self.random(Role::Worker, self.options.workers), None);
        loop {
            // The store may still be busy.
            let Ok(page) = self.wire.list(&Uuid::nil(), &mut random, marker, PAGE, true).await else { continue };
            let Some(last) = page.last() else { break };
            marker = Some(last.id);
            for seen in page {
                gone.remove(&seen.id);
            }
        }
        let count_max: usize = pops.iter().map(|pop| pop.count_max).sum();
        assert!(gone.len() <= count_max, "{} messages are lost, and {count_max} may be", gone.len());
        let invoked = pops.iter().map(|pop| pop.invoked).min().unwrap_or_default();
        Delete { span: Span { invoked, answered: None }, ids: gone.into_iter().collect() }
    }
}
