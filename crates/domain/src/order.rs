//! The order in which a query returns the messages of a feed.

/// Order of a page, and of the pages that follow it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// The lowest rank comes first.
    #[default]
    OldestFirst,
    /// The highest rank comes first.
    NewestFirst,
}
