//! The maximum size of a reply.

use crate::REPLY_BYTES_MAX;
use crate::embedded::rows::located::Located;

/// The bytes of records so far in a reply, or in what one step moves.
#[derive(Debug, Default)]
pub(crate) struct RecordBudget {
    bytes: usize,
}

impl RecordBudget {
    /// Adds a message, by its size class, and returns true; or returns false if it does not fit.
    /// The first message always fits.
    pub(crate) fn try_add(&mut self, located: &Located) -> bool {
        let bytes = self.bytes + located.entry.size.bytes_max();
        if self.bytes > 0 && bytes > REPLY_BYTES_MAX {
            return false;
        }
        self.bytes = bytes;
        true
    }
}
