//! One query serves all readers that wait at the same position of a feed.
//!
//! While a query is running, readers that arrive gather for the next one. A notification to a
//! thousand readers therefore costs the store two queries. No reader misses a message by sharing,
//! because its query begins after the reader has asked.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::broker::access::Access;
use sukkal_domain::{QueueId, Rank, Scope};
use sukkal_storage::{Error, Listing, Page};

/// A query that readers can share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::broker) struct SharedQuery {
    pub(in crate::broker) queue: QueueId,
    pub(in crate::broker) after: Option<Rank>,
    pub(in crate::broker) limit: usize,
    pub(in crate::broker) scope: Scope,
}

type SharedPage = Result<Arc<Page>, Error>;

/// The queries that are running, each with the readers of the next one. Clones share them.
#[derive(Clone, Debug, Default)]
pub(in crate::broker) struct SharedReads(Arc<Mutex<HashMap<SharedQuery, Vec<oneshot::Sender<SharedPage>>>>>);

impl SharedReads {
    /// Returns the result of a query that begins after this call, and that other readers may share.
    /// It includes the messages that the reader has posted itself.
    pub(in crate::broker) async fn read(&self, access: &Access, query: SharedQuery) -> SharedPage {
        let (sender, page) = oneshot::channel();
        if self.join(&query, sender) {
            tokio::spawn(self.clone().run_queries(access.clone(), query));
        }
        page.await.unwrap_or_else(|_| Err(Error::Unavailable("the shared query was aborted".to_owned())))
    }

    /// Runs the query until no reader waits for it.
    async fn run_queries(self, access: Access, query: SharedQuery) {
        loop {
            // Readers that were notified together with the first one are about to arrive.
            let mut gathered = 0;
            while gathered < self.gathered(&query) {
                gathered = self.gathered(&query);
                yield_now().await;
            }
            let readers = self.next_readers(&query);
            if readers.is_empty() {
                return;
            }
            let page = run(&access, &query).await.map(Arc::new);
            access.query_finished(&query.queue);
            for reader in readers {
                let _disconnected = reader.send(page.clone());
            }
        }
    }

    /// Adds a reader of the next query. Returns whether the reader has to start the queries.
    fn join(&self, query: &SharedQuery, reader: oneshot::Sender<SharedPage>) -> bool {
        let mut waiting = self.0.lock();
        let is_first = !waiting.contains_key(query);
        waiting.entry(query.clone()).or_default().push(reader);
        is_first
    }

    /// Returns the number of readers that wait for the next query.
    fn gathered(&self, query: &SharedQuery) -> usize {
        self.0.lock().get(query).map_or(0, Vec::len)
    }

    /// Takes the readers of the next query. If there is none, the queries end.
    fn next_readers(&self, query: &SharedQuery) -> Vec<oneshot::Sender<SharedPage>> {
        let mut waiting = self.0.lock();
        let readers = waiting.get_mut(query).map(std::mem::take).unwrap_or_default();
        if readers.is_empty() {
            waiting.remove(query);
        }
        readers
    }
}

async fn run(access: &Access, query: &SharedQuery) -> Result<Page, Error> {
    let listing = Listing { after: query.after, scope: query.scope, ..Listing::first(query.limit) };
    access.admit().await?.list_messages(&query.queue, &listing).await
}
