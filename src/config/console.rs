//! `[console]`: the console.

use serde::Deserialize;

/// `[console]`: the console.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Console {
    /// Whether the console is served.
    pub enabled: bool,
}
