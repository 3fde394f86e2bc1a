//! Makes the tokens that `sukkal token generate` prints.

use std::ops::Deref;

use crate::app;

/// Returns a new token, whose text is erased when it is dropped.
pub(super) fn new_token() -> impl Deref<Target = String> {
    app::new_token()
}
