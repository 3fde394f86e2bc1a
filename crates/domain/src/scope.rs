//! Which messages a query of a feed includes.

/// The messages that a query includes in addition to the available ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scope {
    /// Includes messages under a live claim.
    pub claimed: bool,
    /// Includes messages whose delay has not ended, in a queue with delays.
    pub delayed: bool,
}
