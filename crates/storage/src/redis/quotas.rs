//! Quotas in Redis: one hash has those of all projects, and a version that changes with each of
//! them. A process that knows the version needs no more than that.

use async_trait::async_trait;
use bytes::Bytes;
use tokio::try_join;
use tracing::debug;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::reply::parse_number;
use super::script::QUOTA_SET;
use crate::quotas::{decode, encode, sum_usages};
use crate::{Error, MeasuredQueues, NameRange, QueueUsage, QuotaList, QuotaStore, QuotaVersion};
use sukkal_domain::{ProjectId, QueueId, QueueName, QuotaOverrides};

/// The field with the version of the list. No project has this id.
const VERSION: &str = "";
/// Approximate number of fields that one command reads.
const FIELDS_PER_COMMAND: &str = "500";

#[async_trait]
impl QuotaStore for RedisStore {
    async fn list_quotas(&self, known: Option<&QuotaVersion>) -> Result<Option<QuotaList>, Error> {
        // Read before the list, so that a change which the list may lack gives another version.
        let version = self.connection.command("HGET", keys::QUOTAS, &[VERSION]).await?.bytes_or_nil();
        let version = version.map(QuotaVersion);
        if known.is_some() && version.as_ref() == known {
            return Ok(None);
        }
        let (mut projects, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let args = [cursor.as_str(), "COUNT", FIELDS_PER_COMMAND];
            let mut reply = self.connection.command("HSCAN", keys::QUOTAS, &args).await?;
            cursor = reply.text()?;
            let mut fields = reply.list()?;
            while !fields.is_empty() {
                let (project, quotas) = (fields.text()?, fields.bytes()?);
                if project != VERSION {
                    let project = keys::decode_project(&project)
                        .ok_or_else(|| Error::Corrupt(format!("quotas are set for the invalid project {project:?}")))?;
                    projects.push((project, decode(&quotas)?));
                }
            }
            if cursor == "0" {
                return Ok(Some(QuotaList { version, projects }));
            }
        }
    }

    async fn set_quotas(&self, project: &ProjectId, quotas: &QuotaOverrides) -> Result<(), Error> {
        let project = Bytes::from(keys::encode_project(project).into_owned());
        let args = vec![project, Bytes::from(encode(quotas)), QuotaVersion::random().0];
        self.connection.run_on(&QUOTA_SET, vec![keys::QUOTAS.to_owned()], args).await.map(|_done| ())
    }

    async fn measure_queues(
        &self,
        project: &ProjectId,
        after: Option<&QueueName>,
        examined_max: usize,
    ) -> Result<MeasuredQueues, Error> {
        let names = self.registered_names(project, &NameRange::after(after), examined_max).await?;
        let reached = names.last().cloned().filter(|_| names.len() == examined_max);
        let queues = names.into_iter().filter_map(|name| QueueId::new(project.clone(), name).ok());
        let queues: Vec<QueueId> = queues.collect();
        let measurements: Vec<_> = queues.iter().map(|queue| self.measure_queue(queue)).collect();
        Ok(MeasuredQueues { usage: sum_usages(measurements).await?, reached })
    }

    async fn measure_queue(&self, queue: &QueueId) -> Result<QueueUsage, Error> {
        let keys = QueueKeys::of(queue);
        let (queue_key, messages_key) = (keys.queue(), keys.messages());
        let fields = self.connection.command("HMGET", &queue_key, &["v", "n", "b"]);
        match try_join!(fields, self.connection.command("HLEN", &messages_key, &[])) {
            Ok((mut fields, mut length)) => {
                if fields.text_or_nil()?.is_none() && self.connection.requires_queues() {
                    return Err(Error::NoQueue);
                }
                let subscriptions = fields.text_or_nil()?.map_or(Ok(0), |count| parse_number(&count))?;
                let bytes = fields.text_or_nil()?.map_or(Ok(0), |bytes| parse_number(&bytes))?;
                let messages = length.number()?;
                Ok(QueueUsage { messages, messages_max: messages, bytes, bytes_max: bytes, subscriptions })
            }
            // One queue that cannot be read must not keep its project from being measured.
            Err(Error::Corrupt(reason)) => {
                debug!(%queue, reason, "a queue that cannot be read counts as empty");
                Ok(QueueUsage::default())
            }
            Err(error) => Err(error),
        }
    }
}
