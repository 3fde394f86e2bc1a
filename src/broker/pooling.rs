//! What a broker needs to manage pools.

use std::fmt;
use std::sync::Arc;

use sukkal_domain::PoolUri;
use sukkal_storage::PoolConnector;

/// What a broker needs to manage pools.
#[derive(Clone)]
pub struct Pooling {
    /// Connects to pools.
    pub connector: Arc<dyn PoolConnector>,
    /// The address of the management store, if it is in Redis.
    pub management_store: Option<PoolUri>,
}

impl fmt::Debug for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pooling").field("management_store", &self.management_store).finish_non_exhaustive()
    }
}
