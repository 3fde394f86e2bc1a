//! Values that are shown as text.

use std::fmt::Display;

use serde::{Serialize, Serializer};

/// A value that is shown as its text, which is written where it belongs, without a string in between.
#[derive(Clone, Copy, Debug)]
pub struct Text<T>(pub T);

impl<T: Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
