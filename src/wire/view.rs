//! The optional parts of message documents.

use serde::Serialize;
use uuid::Uuid;

use super::checksum::Checksums;
use sukkal_domain::{ClaimId, Message, Origin, TraceContext};

/// The optional parts that are included, as the configuration and the request say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether one optional part is included")]
pub struct View {
    /// Whether checksums are included.
    pub checksums: Checksums,
    /// Whether dead letters have their origin. This is an extension on request, because clients
    /// fail on unknown keys.
    pub origins: bool,
    /// Whether messages have the trace context of their post, also on request.
    pub traces: bool,
    /// Whether claimed and popped messages have the number of their deliveries and the time of the
    /// first one, and claims have their id, also on request.
    pub deliveries: bool,
    /// Whether the paths of claimed messages have the ids of their claims, which allow a client to
    /// delete the messages.
    pub claims: bool,
}

/// The document of the origin of a dead letter.
#[derive(Debug, Serialize)]
pub struct OriginDocument<'a> {
    queue: &'a str,
    /// The same name, if it is that of a topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    id: Uuid,
    claim_count: u32,
}

impl View {
    /// Returns the view without optional parts.
    #[must_use]
    pub fn bare() -> Self {
        Self { checksums: Checksums::Hidden, origins: false, traces: false, deliveries: false, claims: false }
    }

    /// Returns the view of a caller who sees messages that others have claimed. The holder of a
    /// pre-signed URL does not see the ids of their claims.
    #[must_use]
    pub fn of_feed(self, is_signed: bool) -> Self {
        Self { claims: !is_signed, ..self }
    }

    /// Returns the claim of a message if claims are included.
    #[must_use]
    pub fn claim(self, message: &Message) -> Option<ClaimId> {
        message.claim.filter(|_| self.claims)
    }

    /// Returns the origin of a dead letter if origins are included.
    #[must_use]
    pub fn origin(self, origin: Option<&Origin>) -> Option<OriginDocument<'_>> {
        let origin = origin.filter(|_| self.origins)?;
        let Origin { queue, id, claim_count } = origin;
        Some(OriginDocument { queue: queue.plain(), topic: queue.topic(), id: (*id).into(), claim_count: *claim_count })
    }

    /// Returns the `traceparent` of a message if trace contexts are included.
    #[must_use]
    pub fn traceparent(self, trace: Option<TraceContext>) -> Option<String> {
        trace.filter(|_| self.traces).map(|trace| trace.to_string())
    }
}
