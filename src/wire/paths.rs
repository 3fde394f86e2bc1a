//! The paths of queues and topics.

use sukkal_domain::{QueueKind, QueueName};

/// Returns the path of all queues, or of all topics.
#[must_use]
pub const fn all(kind: QueueKind) -> &'static str {
    match kind {
        QueueKind::Queue => "/v2/queues",
        QueueKind::Topic => "/v2/topics",
    }
}

/// Returns the path of a queue or a topic.
#[must_use]
pub fn of(name: &QueueName) -> String {
    [all(name.kind()), "/", name.plain()].concat()
}

/// Returns a path below that of a queue or a topic.
#[must_use]
pub fn below(name: &QueueName, part: &str) -> String {
    [all(name.kind()), "/", name.plain(), "/", part].concat()
}
