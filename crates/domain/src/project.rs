//! Projects, which own queues. No project can see anything of another one.

use std::sync::Arc;

use super::shared_text::shared_text;

/// Id of a project: any non-empty text, from the request or from Keystone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProjectId(Arc<str>);

impl ProjectId {
    /// Returns the project id, or `None` if the text is empty.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.into()))
    }
}

shared_text!(ProjectId);
