//! What documents of messages show beside what every message has.

use serde_json::{Value, json};

use super::checksum::Checksums;
use crate::domain::Origin;

/// What is shown: some of it as the operator wants it, some as the request asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether checksums are.
    pub checksums: Checksums,
    /// Whether dead letters tell where they come from. An extension, for who asks for it: clients fail on keys that
    /// they do not know.
    pub origins: bool,
}

impl View {
    /// Where a message comes from, if that is shown, and it is a dead letter.
    #[must_use]
    pub fn origin(self, origin: Option<&Origin>) -> Option<Value> {
        let origin = origin.filter(|_| self.origins)?;
        Some(json!({
            "queue": origin.queue.as_str(),
            "id": origin.id.to_string(),
            "claim_count": origin.claim_count,
        }))
    }
}
