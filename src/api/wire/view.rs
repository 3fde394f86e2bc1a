//! What documents of messages show beside what every message has.

use serde::Serialize;

use super::checksum::Checksums;
use super::text::Text;
use crate::domain::{MessageId, Origin};

/// What is shown: some of it as the operator wants it, some as the request asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether checksums are.
    pub checksums: Checksums,
    /// Whether dead letters tell where they come from. An extension, for who asks for it: clients fail on keys that
    /// they do not know.
    pub origins: bool,
}

/// Where a dead letter comes from, as it is shown.
#[derive(Debug, Serialize)]
pub struct OriginDocument<'a> {
    queue: &'a str,
    id: Text<MessageId>,
    claim_count: u32,
}

impl View {
    /// Where a message comes from, if that is shown, and it is a dead letter.
    #[must_use]
    pub fn origin(self, origin: Option<&Origin>) -> Option<OriginDocument<'_>> {
        let origin = origin.filter(|_| self.origins)?;
        Some(OriginDocument { queue: origin.queue.as_str(), id: Text(origin.id), claim_count: origin.claim_count })
    }
}
