//! The id of a queue, which consists of its project and its name.
//!
//! A topic is stored as a queue whose name begins with `~`, which no client can write in the name
//! of a queue. So a topic and a queue may have the same name, everything below the broker treats
//! both alike, and the topics of a project follow its queues in byte order.

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

/// Begins the stored names of topics.
pub const TOPIC_MARK: &str = "~";

/// Name of a queue or a topic: 1 to 64 characters of `A-Z a-z 0-9 _ - .`
///
/// [`fmt::Display`] shows the name as clients know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Arc<str>);

/// Whether messages are for workers, which claim them, or only for subscribers and observers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// A queue.
    #[default]
    Queue,
    /// A topic.
    Topic,
}

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
    #[error("a {} name must have 1 to {QUEUE_NAME_CHARS_MAX} characters of A-Z a-z 0-9 _ - .", .0.noun())]
    Name(QueueKind),
    /// Clients cannot use the name in a path.
    #[error("a {} name must not be . or .., because clients remove these from paths", .0.noun())]
    RemovedFromPaths(QueueKind),
    /// The project id is too long to own a queue of this kind.
    #[error("a project id must have at most {PROJECT_ID_CHARS_MAX} characters")]
    Project(QueueKind),
}

impl InvalidQueueId {
    /// Returns the kind of the queue.
    #[must_use]
    pub const fn kind(&self) -> QueueKind {
        match self {
            Self::Name(kind) | Self::RemovedFromPaths(kind) | Self::Project(kind) => *kind,
        }
    }
}

impl FromStr for QueueName {
    type Err = InvalidQueueId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::of_kind(QueueKind::Queue, text)
    }
}

/// Returns whether the text follows the rule for the names of queues, pools and flavors.
pub(super) fn is_plain_name(text: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=QUEUE_NAME_CHARS_MAX).contains(&text.len()) && text.bytes().all(legal)
}

/// Returns whether clients remove the text from a path, so that they cannot address what has this
/// name.
pub(super) fn is_removed_from_paths(text: &str) -> bool {
    [".", ".."].contains(&text)
}

impl QueueKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Queue, Self::Topic];

    /// Returns the word for one of this kind.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Topic => "topic",
        }
    }

    /// Returns the same word for the start of a sentence.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Queue => "Queue",
            Self::Topic => "Topic",
        }
    }

    /// Returns the word for several of this kind.
    #[must_use]
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Queue => "queues",
            Self::Topic => "topics",
        }
    }

    /// Returns the kind with this plural.
    #[must_use]
    pub fn of_plural(plural: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.plural() == plural)
    }
}

impl QueueName {
    /// Returns the name of this kind that clients know as this text.
    ///
    /// # Errors
    ///
    /// [`InvalidQueueId::Name`] if the text is not valid.
    pub fn of_kind(kind: QueueKind, text: &str) -> Result<Self, InvalidQueueId> {
        if !is_plain_name(text) {
            return Err(InvalidQueueId::Name(kind));
        }
        Ok(Self(match kind {
            QueueKind::Queue => text.into(),
            QueueKind::Topic => [TOPIC_MARK, text].concat().into(),
        }))
    }

    /// Returns the name that a store keeps as this text.
    ///
    /// # Errors
    ///
    /// [`InvalidQueueId::Name`] if no name is kept as this text.
    pub fn from_stored(text: &str) -> Result<Self, InvalidQueueId> {
        match text.strip_prefix(TOPIC_MARK) {
            Some(topic) => Self::of_kind(QueueKind::Topic, topic),
            None => text.parse(),
        }
    }

    /// Succeeds if a new queue may have the name. Earlier releases have created queues with any
    /// name.
    ///
    /// # Errors
    ///
    /// [`InvalidQueueId::RemovedFromPaths`] if clients could not address the queue.
    pub fn check_new(&self) -> Result<(), InvalidQueueId> {
        if is_removed_from_paths(self.plain()) {
            return Err(InvalidQueueId::RemovedFromPaths(self.kind()));
        }
        Ok(())
    }

    /// Returns the name as clients know it, if it is the name of a topic.
    #[must_use]
    pub fn topic(&self) -> Option<&str> {
        self.0.strip_prefix(TOPIC_MARK)
    }

    /// Returns whether it is the name of a queue or a topic.
    #[must_use]
    pub fn kind(&self) -> QueueKind {
        if self.topic().is_some() { QueueKind::Topic } else { QueueKind::Queue }
    }

    /// Returns the name as clients know it.
    #[must_use]
    pub fn plain(&self) -> &str {
        self.topic().unwrap_or(&self.0)
    }

    /// Returns the name as stores keep it, which differs between a queue and a topic.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.plain())
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
            return Err(InvalidQueueId::Project(name.kind()));
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
    /// XXH3-64 hash of the project, a zero byte and the stored name. The function never changes,
    /// because stored ids contain its result.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        self.fingerprint
    }
}

impl fmt::Display for QueueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.project, self.name.as_str())
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
        for name in ["", "a b", "a/b", "café", "a\n", "~a", &"x".repeat(65)] {
            for kind in QueueKind::ALL {
                assert_eq!(QueueName::of_kind(kind, name), Err(InvalidQueueId::Name(kind)), "{name:?}");
            }
        }
    }

    #[test]
    fn a_topic_and_a_queue_of_one_name_are_stored_apart() {
        let [queue, topic] = QueueKind::ALL.map(|kind| QueueName::of_kind(kind, "a").unwrap());

        assert_eq!((queue.kind(), topic.kind()), (QueueKind::Queue, QueueKind::Topic));
        assert_eq!((queue.to_string(), topic.to_string()), ("a".to_owned(), "a".to_owned()));
        assert_eq!((queue.as_str(), topic.as_str()), ("a", "~a"));
        for name in [&queue, &topic] {
            assert_eq!(QueueName::from_stored(name.as_str()).as_ref(), Ok(name));
        }
        assert!(topic > "zzz".parse().unwrap(), "topics follow queues");
        assert_eq!(QueueName::from_stored("~~a"), Err(InvalidQueueId::Name(QueueKind::Topic)));
    }

    #[test]
    fn a_project_of_256_characters_may_own_a_queue() {
        let queue = |chars| {
            let project = ProjectId::new(&"é".repeat(chars)).unwrap();
            QueueId::new(project, "q".parse().unwrap())
        };

        assert!(queue(256).is_ok());
        assert_eq!(queue(257), Err(InvalidQueueId::Project(QueueKind::Queue)));
    }

    #[test]
    fn the_fingerprint_never_changes() {
        let queue = QueueId::new(ProjectId::new("p1").unwrap(), "orders".parse().unwrap()).unwrap();

        assert_eq!(queue.fingerprint(), 0xf6_d45d);
    }
}
