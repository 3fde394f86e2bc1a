//! The optional parts of message documents.

use serde::Serialize;
use uuid::Uuid;

use super::checksum::Checksums;
use crate::domain::Origin;

/// The optional parts that are included, as the configuration and the request say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Whether checksums are included.
    pub checksums: Checksums,
    /// Whether dead letters have their origin. This is an extension on request, because clients
    /// fail on unknown keys.
    pub origins: bool,
}

/// The document of the origin of a dead letter.
#[derive(Debug, Serialize)]
pub struct OriginDocument<'a> {
    queue: &'a str,
    id: Uuid,
    claim_count: u32,
}

impl View {
    /// Returns the origin of a dead letter if origins are included.
    #[must_use]
    pub fn origin(self, origin: Option<&Origin>) -> Option<OriginDocument<'_>> {
        let origin = origin.filter(|_| self.origins)?;
        Some(OriginDocument { queue: origin.queue.as_str(), id: origin.id.into(), claim_count: origin.claim_count })
    }
}
