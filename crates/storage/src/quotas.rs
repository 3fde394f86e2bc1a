//! Quotas of projects, and what projects use: the trait, its results and the stored form.

use async_trait::async_trait;
use bytes::{Buf, BufMut, Bytes};
use futures::stream::{self, StreamExt, TryStreamExt};
use uuid::Uuid;

use super::error::Error;
use super::records::{Read, Records, Row, Table, Write};
use sukkal_domain::{ProjectId, QueueId, QueueName, Quota, QuotaOverrides};

/// The quotas by project, and in the row without a key the version of their list.
pub(super) static QUOTAS: Table = Table { tag: "quotas", prefixes: [b'm'; 4], indexes: None };

/// Bytes of a stored value.
const VALUE_BYTES: usize = 8;
/// Maximum number of queues that are measured at a time.
const MEASURED_AT_A_TIME: usize = 16;

/// Stores the quotas that operators set for single projects, and measures what projects use.
#[async_trait]
pub trait QuotaStore: Records {
    /// Returns the quotas of all projects that have some, or `None` if they are still those of the
    /// version `known`.
    async fn list_quotas(&self, known: Option<&QuotaVersion>) -> Result<Option<QuotaList>, Error> {
        // Read before the list, so that a change which the list may lack gives another version.
        let (_, found) = self.read_rows(&QUOTAS, vec![Read::Row(Bytes::new())]).await?;
        let version = found.into_iter().flatten().next().map(|row| QuotaVersion(row.value));
        if known.is_some() && version.as_ref() == known {
            return Ok(None);
        }
        let rows = self.all_rows(&QUOTAS).await?;
        let projects = rows.iter().filter(|row| !row.key.is_empty()).map(quotas_of_project);
        Ok(Some(QuotaList { version, projects: projects.collect::<Result<_, _>>()? }))
    }

    /// Replaces the quotas of the project. Empty quotas remove it from the list.
    async fn set_quotas(&self, project: &ProjectId, quotas: &QuotaOverrides) -> Result<(), Error> {
        let row = Row { key: Bytes::copy_from_slice(project.as_str().as_bytes()), value: encode(quotas).into() };
        let version = Row { key: Bytes::new(), value: QuotaVersion::random().0 };
        let (deletes, puts) =
            if row.value.is_empty() { (vec![row], vec![version]) } else { (Vec::new(), vec![row, version]) };
        self.write_rows(&QUOTAS, Write { deletes, puts, ..Write::default() }).await.map(drop)
    }

    /// Examines the next queues and topics of the project in byte order of their stored names, at
    /// most `examined_max`, and returns what they use together. Due changes are not applied, so
    /// what has expired counts until it is removed.
    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error>;

    /// Returns what one queue uses, as [`Self::measure_queues`] measures it.
    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error>;
}

/// The version of the list of quotas. It changes with each change of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaVersion(pub(super) Bytes);

/// The quotas of all projects that have some.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaList {
    /// The version of the list, or an earlier one; `None` if no quotas were ever set.
    pub version: Option<QuotaVersion>,
    /// The projects, in any order.
    pub projects: Vec<(ProjectId, QuotaOverrides)>,
}

/// What some queues of a project use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeasuredQueues {
    /// What the queues use together.
    pub usage: QueueUsage,
    /// The last queue examined, from which the measurement continues; `None` at the end.
    pub reached: Option<QueueName>,
}

/// What one or more queues use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueUsage {
    /// Number of messages.
    pub messages: u64,
    /// Number of messages of the queue that has the most.
    pub messages_max: u64,
    /// Sum of the sizes of the messages, in bytes, without those of queues for which it is not
    /// known: see `stored_bytes`.
    pub bytes: u64,
    /// The same of the queue that has the most.
    pub bytes_max: u64,
    /// Number of subscriptions.
    pub subscriptions: u64,
}

impl QueueUsage {
    /// Adds what other queues use.
    pub fn add(&mut self, other: Self) {
        self.messages += other.messages;
        self.messages_max = self.messages_max.max(other.messages_max);
        self.bytes += other.bytes;
        self.bytes_max = self.bytes_max.max(other.bytes_max);
        self.subscriptions += other.subscriptions;
    }
}

impl QuotaVersion {
    /// Returns a version that no list has had.
    pub(super) fn random() -> Self {
        Self(Bytes::copy_from_slice(Uuid::new_v4().as_bytes()))
    }
}

/// Awaits these measurements of queues, some at a time, because each queue is in a slot of its own.
/// Returns what the queues use together.
pub(super) async fn sum_usages(
    measurements: impl IntoIterator<Item = impl Future<Output = Result<QueueUsage, Error>>>,
) -> Result<QueueUsage, Error> {
    let mut measured = stream::iter(measurements).buffered(MEASURED_AT_A_TIME);
    let mut sum = QueueUsage::default();
    while let Some(usage) = measured.try_next().await? {
        sum.add(usage);
    }
    Ok(sum)
}

/// Reads the quotas of a project from their row.
fn quotas_of_project(row: &Row) -> Result<(ProjectId, QuotaOverrides), Error> {
    let invalid = || Error::Corrupt(format!("quotas are set for the invalid project {:?}", row.key));
    let project = str::from_utf8(&row.key).ok().and_then(ProjectId::new).ok_or_else(invalid)?;
    Ok((project, decode(&row.value)?))
}

/// Encodes quotas: for each one that is set, the length of its name, the name, and the limit.
fn encode(quotas: &QuotaOverrides) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (quota, limit) in quotas.set() {
        bytes.put_u8(u8::try_from(quota.name().len()).expect("the names are short"));
        bytes.put_slice(quota.name().as_bytes());
        bytes.put_u64(limit);
    }
    bytes
}

/// Decodes quotas. Quotas that only a later release knows are left out.
fn decode(mut bytes: &[u8]) -> Result<QuotaOverrides, Error> {
    let mut quotas = QuotaOverrides::default();
    while bytes.has_remaining() {
        let length = usize::from(bytes.get_u8());
        if bytes.remaining() < length + VALUE_BYTES {
            return Err(Error::Corrupt("the quotas of a project are incomplete".to_owned()));
        }
        let (name, rest) = bytes.split_at(length);
        bytes = rest;
        let limit = bytes.get_u64();
        if let Some(quota) = str::from_utf8(name).ok().and_then(Quota::named) {
            quotas[quota] = Some(limit);
        }
    }
    Ok(quotas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_as_they_were_written() {
        let mut quotas = QuotaOverrides::default();
        assert_eq!(decode(&encode(&quotas)), Ok(quotas));
        (quotas[Quota::Queues], quotas[Quota::EventStreams]) = (Some(0), Some(u64::MAX));
        let bytes = encode(&quotas);

        assert_eq!(decode(&bytes), Ok(quotas));
        assert_eq!(decode(&[&[2][..], b"xy", &[0; 8], &bytes].concat()), Ok(quotas));
        decode(&bytes[1..]).unwrap_err();
    }
}
