//! The id of a queue, which consists of its project and its name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use super::ProjectId;

/// Maximum length of a queue name, in characters.
pub const QUEUE_NAME_CHARS_MAX: usize = 64;
/// Maximum length of the id of a project that owns a queue, in characters.
pub const PROJECT_ID_CHARS_MAX: usize = 256;

/// Name of a queue: 1 to 64 characters of `A-Z a-z 0-9 _ - .`
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Arc<str>);

/// Project and name of a queue. They are one type, so that no layer below the broker can omit the
/// project.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueId {
    project: ProjectId,
    name: QueueName,
    fingerprint: u32,
}

/// Reasons for which a queue id is refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum InvalidQueueId {
    /// The name is empty, too long, or contains other characters.
    #[error("a queue name must have 1 to {QUEUE_NAME_CHARS_MAX} characters of A-Z a-z 0-9 _ - .")]
    Name,
    /// The project id is too long to own a queue.
    #[error("a project id must have at most {PROJECT_ID_CHARS_MAX} characters")]
    Project,
}

impl FromStr for QueueName {
    type Err = InvalidQueueId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if is_plain_name(text) { Ok(Self(text.into())) } else { Err(InvalidQueueId::Name) }
    }
}

/// Returns whether the text follows the rule for the names of queues, pools and flavors.
pub(super) fn is_plain_name(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=QUEUE_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal)
}

impl QueueName {
    /// Returns the name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl QueueId {
    /// Returns the id of the queue with this name in the project.
    ///
    /// # Errors
    ///
    /// [`InvalidQueueId::Project`] if the project id is too long.
    pub fn new(project: ProjectId, name: QueueName) -> Result<Self, InvalidQueueId> {
        if project.as_str().chars().count() > PROJECT_ID_CHARS_MAX {
            return Err(InvalidQueueId::Project);
        }
        let text = [project.as_str().as_bytes(), &[0], name.as_str().as_bytes()].concat();
        let fingerprint = u32::try_from(xxh3_64(&text) & 0xff_ffff).expect("24 bits fit");
        Ok(Self { project, name, fingerprint })
    }

    /// Returns the project that owns the queue.
    #[must_use]
    pub fn project(&self) -> &ProjectId {
        &self.project
    }

    /// Returns the name of the queue within the project.
    #[must_use]
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Returns the 24 bits that every message id of this queue contains: the low bits of the
    /// XXH3-64 hash of the project, a zero byte and the name. The function never changes, because
    /// stored ids contain its result.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.project, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_1_to_64_plain_characters() {
        for name in ["a", "A-b_c.9", "..", &"x".repeat(64)] {
            assert!(name.parse::<QueueName>().is_ok(), "{name:?}");
        }
        for name in ["", "a b", "a/b", "café", "a\n", &"x".repeat(65)] {
            assert_eq!(name.parse::<QueueName>(), Err(InvalidQueueId::Name), "{name:?}");
        }
    }

    #[test]
    fn a_project_of_256_characters_may_own_a_queue() {
        let queue = |chars| {
            let project = ProjectId::new(&"é".repeat(chars)).unwrap();
            QueueId::new(project, "q".parse().unwrap())
        };

        assert!(queue(256).is_ok());
        assert_eq!(queue(257), Err(InvalidQueueId::Project));
    }

    #[test]
    fn the_fingerprint_never_changes() {
        let queue = QueueId::new(ProjectId::new("p1").unwrap(), "orders".parse().unwrap()).unwrap();

        assert_eq!(queue.fingerprint(), 0xf6_d45d);
    }
}
