//! A reference that does not keep the stores open.

use std::sync::Weak;

use super::{PoolParts, PooledStore};
use crate::Error;

/// A reference to the stores for what they own: their expiry timers, and the destinations of
/// messages that leave one of them.
#[derive(Clone)]
pub(super) struct WeakStore(pub(super) Weak<PoolParts>);

impl WeakStore {
    /// Returns the stores.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if they have been closed.
    pub(super) fn upgrade(&self) -> Result<PooledStore, Error> {
        self.0.upgrade().map(PooledStore).ok_or_else(|| Error::Unavailable("the stores are closed".to_owned()))
    }
}
