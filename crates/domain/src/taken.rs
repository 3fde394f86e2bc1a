//! What a claim or a pop has taken from a queue.

/// The outcome of a claim or a pop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// Messages: at least one.
    Messages(T),
    /// Nothing, because no message is available.
    Nothing,
    /// Nothing, because the queue is paused.
    Paused,
}

impl<T> Taken<T> {
    /// Returns the messages, if there are any.
    pub fn messages(self) -> Option<T> {
        match self {
            Self::Messages(messages) => Some(messages),
            Self::Nothing | Self::Paused => None,
        }
    }
}
