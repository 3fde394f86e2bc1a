//! Looks of many readers at the same place of a feed are one look: while one is under way, those who come gather for
//! the next. So a thousand readers who are called at once cost the store two looks, and none sees less than it would
//! alone, since its look begins after it came.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::Broker;
use crate::domain::{QueueId, Rank};
use crate::storage::{Error, Listing, Page, Scope};

/// What a look is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) queue: QueueId,
    pub(super) after: Option<Rank>,
    pub(super) limit: usize,
    pub(super) scope: Scope,
}

type Told = Result<Arc<Page>, Error>;

/// The looks that are under way, each with those who wait for the next one.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<HashMap<Place, Vec<oneshot::Sender<Told>>>>);

impl Looks {
    fn waiting(&self) -> MutexGuard<'_, HashMap<Place, Vec<oneshot::Sender<Told>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds somebody who waits; whether nobody looks yet.
    fn join(&self, place: &Place, tell: oneshot::Sender<Told>) -> bool {
        let mut waiting = self.waiting();
        let is_first = !waiting.contains_key(place);
        waiting.entry(place.clone()).or_default().push(tell);
        is_first
    }

    /// How many wait for the next look.
    fn gathered(&self, place: &Place) -> usize {
        self.waiting().get(place).map_or(0, Vec::len)
    }

    /// Those for whom the next look is; nobody when it is over.
    fn next(&self, place: &Place) -> Vec<oneshot::Sender<Told>> {
        let mut waiting = self.waiting();
        let next = waiting.get_mut(place).map(std::mem::take).unwrap_or_default();
        if next.is_empty() {
            waiting.remove(place);
        }
        next
    }
}

impl Broker {
    /// A page of a feed, everybody's messages included, that others may get too.
    pub(super) async fn look_together(&self, place: Place) -> Told {
        let (tell, told) = oneshot::channel();
        if self.looks.join(&place, tell) {
            tokio::spawn(self.clone().look_for_all(place));
        }
        told.await.unwrap_or_else(|_| Err(Error::Unavailable("nobody looks any more".to_owned())))
    }

    async fn look(&self, place: &Place) -> Result<Page, Error> {
        let listing = Listing { after: place.after, limit: place.limit, not_from: None, scope: place.scope };
        self.admitted(&place.queue).await?.list_messages(&place.queue, &listing).await
    }

    async fn look_for_all(self, place: Place) {
        loop {
            // Those who were called with the first one are on their way.
            let mut gathered = 0;
            while gathered < self.looks.gathered(&place) {
                gathered = self.looks.gathered(&place);
                yield_now().await;
            }
            let waiting = self.looks.next(&place);
            if waiting.is_empty() {
                return;
            }
            let page = self.look(&place).await.map(Arc::new);
            self.store.looked(&place.queue);
            for tell in waiting {
                let _gone_meanwhile = tell.send(page.clone());
            }
        }
    }
}
