//! The list of pools and flavors that a process knows.

use std::sync::Arc;

use parking_lot::Mutex;

use super::Error;
use super::access::AdmittedStore;
use sukkal_storage::PoolList;

/// The list that was read last. It may be outdated.
#[derive(Default)]
pub(super) struct KnownPools(Mutex<Arc<PoolList>>);

impl KnownPools {
    /// Returns the list of pools and flavors as it is now. If the process knows it already, reads
    /// only its version.
    pub(super) async fn read(&self, store: &AdmittedStore) -> Result<Arc<PoolList>, Error> {
        let known = self.0.lock().clone();
        let Some(list) = store.load_pools(known.version.as_ref()).await? else {
            return Ok(known);
        };
        let list = Arc::new(list);
        *self.0.lock() = list.clone();
        Ok(list)
    }
}
