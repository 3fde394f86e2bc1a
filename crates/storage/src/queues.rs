//! Queues and their metadata: the trait, its arguments and its results.

use std::future::Future;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};

use super::error::Error;
use sukkal_domain::queue_id::TOPIC_MARK;
use sukkal_domain::{Creation, Metadata, ProjectId, Queue, QueueId, QueueKind, QueueName, Revision, Summary};

/// Maximum number of steps of due changes that [`QueueStore::summarize_queues`] applies to queues
/// other than the first one. A step covers some hundreds of messages.
const SUMMARY_DUE_STEPS_MAX: usize = 64;
/// Maximum number of queues of a listing that are read at a time, each by a command of its own.
const READS_IN_FLIGHT_MAX: usize = 16;

/// Completes summaries of these queues that a driver has read. A summary is missing if due changes
/// must be applied to its queue first. For such a queue, `apply_step` applies some of them and
/// reads the summary again. Returns the summaries of the first queues, as
/// [`QueueStore::summarize_queues`] says.
pub(super) async fn complete_summaries<F>(
    queues: &[QueueId],
    read: Vec<Option<Summary>>,
    apply_step: impl Fn(QueueId) -> F,
) -> Result<Vec<Summary>, Error>
where
    F: Future<Output = Result<Option<Summary>, Error>>,
{
    let (mut summaries, mut steps_left) = (Vec::with_capacity(queues.len()), SUMMARY_DUE_STEPS_MAX);
    for (queue, mut summary) in queues.iter().zip(read) {
        while summary.is_none() {
            if !summaries.is_empty() {
                if steps_left == 0 {
                    return Ok(summaries);
                }
                steps_left -= 1;
            }
            summary = apply_step(queue.clone()).await?;
        }
        summaries.extend(summary);
    }
    Ok(summaries)
}

/// Stores queues and their metadata.
#[async_trait]
pub trait QueueStore: Send + Sync {
    /// Creates the queue with this metadata. If the queue exists, its metadata stays unchanged.
    async fn create_queue(&self, queue: &QueueId, metadata: &Metadata) -> Result<Creation, Error>;

    /// Returns the queue, or `None` if it does not exist.
    async fn get_queue(&self, queue: &QueueId) -> Result<Option<Queue>, Error>;

    /// Replaces the metadata if the queue is still at the revision that the caller knows. Applies
    /// due changes first if a plain queue becomes fair or a fair queue becomes plain.
    async fn update_queue(
        &self,
        queue: &QueueId,
        last_known_revision: Revision,
        metadata: &Metadata,
    ) -> Result<UpdateOutcome, Error>;

    /// Deletes the queue with its messages and claims. Has no effect if the queue does not exist.
    ///
    /// A queue with a million messages takes no longer than a queue with one message.
    async fn delete_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Pauses the queue, and creates it with default metadata if it does not exist. Until the queue
    /// is resumed or deleted, claims and pops get no messages: none is handed out after this has
    /// returned. All other operations work as usual, and a purge does not end the pause. Has no
    /// effect if the queue is paused.
    async fn pause_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Resumes the queue, and notifies waiters of its available messages. Has no effect if the
    /// queue is not paused or does not exist.
    async fn resume_queue(&self, queue: &QueueId) -> Result<(), Error>;

    /// Examines the next queue names of the project in byte order, and returns the queues that
    /// match the listing.
    ///
    /// One call examines at most `examined_max` names, and ends when the metadata that it has read
    /// has the size `bytes`. A page may therefore be empty before the end of the list.
    ///
    /// # Errors
    ///
    /// [`Error::PoolDown`] if the listing needs the metadata of a queue whose pool is down.
    async fn list_queues(&self, project: &ProjectId, listing: &QueueListing) -> Result<QueuePage, Error>;

    /// Returns the number of the project's queues of this kind, or of both kinds.
    async fn count_queues(&self, project: &ProjectId, kind: Option<QueueKind>) -> Result<u64, Error>;

    /// Returns a summary of each of the first queues, in the given order, each as of a moment of
    /// its own. A queue that does not exist is empty.
    ///
    /// The first queue is always included. The others are included up to the one for which this
    /// call would have to apply too many due changes.
    async fn summarize_queues(&self, queues: &[QueueId]) -> Result<Vec<Summary>, Error>;

    /// Examines the next projects after `after`, at most `examined_max`, and returns those that
    /// have queues.
    ///
    /// The projects have a fixed order. Ids that consist of letters, digits, `_`, `-` and `.` are
    /// in byte order.
    async fn list_projects(&self, after: Option<&ProjectId>, examined_max: usize) -> Result<ProjectPage, Error>;
}

/// The result of a metadata update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateOutcome {
    /// The metadata was replaced.
    Done,
    /// The queue does not exist or is at another revision. Nothing was changed.
    Stale,
}

/// Selects queues of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueListing {
    /// The names to examine.
    pub names: NameRange,
    /// Only queues whose names, as clients know them, contain this text.
    pub name_part: Option<String>,
    /// Maximum number of names to examine; not 0.
    pub examined_max: usize,
    /// Size of metadata, in bytes, after which the listing examines no further name; not 0.
    pub bytes: usize,
    /// Whether the caller uses the metadata. Otherwise, queues of a pool that is down may be listed
    /// without it.
    pub needs_metadata: bool,
}

impl Default for QueueListing {
    fn default() -> Self {
        let names = NameRange::default();
        Self { names, name_part: None, examined_max: 1, bytes: usize::MAX, needs_metadata: false }
    }
}

impl QueueListing {
    /// Returns whether the name contains the text that the listing asks for.
    pub(super) fn includes(&self, name: &QueueName) -> bool {
        self.name_part.as_ref().is_none_or(|part| name.plain().contains(part))
    }
}

/// A range of stored names of one project. All names of topics follow those of queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameRange {
    /// Only names that follow this text in byte order.
    pub(super) after: Option<String>,
    /// Only names that begin with this text.
    pub(super) prefix: String,
    /// Only names before this text in byte order.
    pub(super) below: Option<&'static str>,
}

impl NameRange {
    /// Returns the range of all names of queues and topics after this one.
    #[must_use]
    pub fn after(name: Option<&QueueName>) -> Self {
        Self { after: name.map(|name| name.as_str().to_owned()), ..Self::default() }
    }

    /// Returns the range of the names of this kind that follow `after` and begin with `prefix`.
    /// Both texts are compared with the names as clients know them.
    #[must_use]
    pub fn of_kind(kind: QueueKind, after: Option<&str>, prefix: Option<&str>) -> Self {
        let (mark, below) = match kind {
            QueueKind::Queue => ("", Some(TOPIC_MARK)),
            QueueKind::Topic => (TOPIC_MARK, None),
        };
        let stored = |text: &str| [mark, text].concat();
        Self { after: after.map(stored), prefix: stored(prefix.unwrap_or_default()), below }
    }
}

/// The result of one step of a queue listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueuePage {
    /// The queues, in byte order of their names.
    pub queues: Vec<(QueueName, Queue)>,
    /// The last name examined, from which the listing continues; `None` at the end of the list.
    pub reached: Option<QueueName>,
}

impl QueuePage {
    /// Returns the size of the metadata of the queues, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.queues.iter().map(|(_, queue)| queue.metadata.keys().as_msgpack().len()).sum()
    }

    /// Returns the page of the queues that these reads return, in their order. `reached` is the
    /// name from which the listing continues if all of them are read.
    pub(super) async fn read<R>(
        reads: impl IntoIterator<Item = R>,
        reached: Option<QueueName>,
        listing: &QueueListing,
    ) -> Result<Self, Error>
    where
        R: Future<Output = Result<Option<(QueueName, Queue)>, Error>>,
    {
        let (mut reads, mut page) = (stream::iter(reads).buffered(READS_IN_FLIGHT_MAX), Self::default());
        let mut bytes = 0;
        while let Some(read) = reads.try_next().await? {
            let Some((name, queue)) = read else { continue };
            bytes += queue.metadata.keys().as_msgpack().len();
            page.queues.push((name.clone(), queue));
            if bytes >= listing.bytes {
                page.reached = Some(name);
                return Ok(page);
            }
        }
        page.reached = reached;
        Ok(page)
    }
}

/// The result of one step of a listing of projects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProjectPage {
    /// The projects that have queues, with the number of their queues.
    pub projects: Vec<(ProjectId, u64)>,
    /// The last project examined, from which the listing continues; `None` at the end of the list.
    pub reached: Option<ProjectId>,
}
