//! Lists and replaces sealed bodies in Redis.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::arguments;
use super::keys::{KeyName, QueueKeys};
use super::reply::{self, Reply};
use super::script::{SEALED_LIST, SEALED_REPLACE};
use crate::moved_messages::record_at;
use crate::sealed_bodies::{SealedBodies, SealedPage, SealedPart, SealedPosition, SealedReplacement, StoredBody};
use crate::{Error, REPLY_BYTES_MAX};
use sukkal_domain::QueueId;

/// Number of values of a hash in one step.
const LISTED_PER_STEP: u64 = 100;
/// Number of values of the outbox in one step. Their sizes are not known before.
const MOVING_PER_STEP: u64 = 4;

#[async_trait]
impl SealedBodies for RedisStore {
    async fn list_sealed(&self, queue: &QueueId, after: Option<&SealedPosition>) -> Result<SealedPage, Error> {
        let (part, place) = match after {
            None => (SealedPart::Messages, Bytes::new()),
            Some(position) => (position.part, position.place.clone()),
        };
        let (bodies, place) = match part {
            SealedPart::Messages | SealedPart::Retries => self.list_in_hash(queue, part, place).await?,
            SealedPart::Outbox => self.list_in_outbox(queue, &place).await?,
        };
        let next = match (part, place) {
            (part, Some(place)) => Some(SealedPosition { part, place }),
            (SealedPart::Messages, None) => Some(SealedPosition { part: SealedPart::Retries, place: Bytes::new() }),
            (SealedPart::Retries, None) => Some(SealedPosition { part: SealedPart::Outbox, place: Bytes::new() }),
            (SealedPart::Outbox, None) => None,
        };
        Ok(SealedPage { bodies, next })
    }

    async fn replace_sealed(&self, queue: &QueueId, replacements: &[SealedReplacement]) -> Result<u64, Error> {
        let mut replaced = 0;
        // The old and the new value of each are sent.
        for batch in batches(replacements, REPLY_BYTES_MAX / 2) {
            let mut args = vec![name_of(batch[0].stored.part)];
            for SealedReplacement { stored, value } in batch {
                args.extend([stored.name.clone(), stored.value.clone(), value.clone()]);
            }
            replaced += self.connection.run(&SEALED_REPLACE, &QueueKeys::of(queue), &args).await?.number()?;
        }
        Ok(replaced)
    }
}

impl RedisStore {
    /// Lists bodies of messages or retries. Returns the place to continue from, `None` at the end.
    async fn list_in_hash(
        &self,
        queue: &QueueId,
        part: SealedPart,
        place: Bytes,
    ) -> Result<(Vec<StoredBody>, Option<Bytes>), Error> {
        let keys = QueueKeys::of(queue);
        let args = [name_of(part), place, arguments::number(LISTED_PER_STEP)];
        let mut reply = self.connection.run(&SEALED_LIST, &keys, &args).await?;
        let place = Some(reply.bytes()?).filter(|place| !place.is_empty());
        let names = reply.read_all(Reply::bytes)?;
        if names.is_empty() {
            return Ok((Vec::new(), place));
        }
        let (key, find): (_, fn(Bytes, Bytes) -> _) = match part {
            SealedPart::Retries => (keys.key(KeyName::Retries), StoredBody::in_retry),
            _ => (keys.key(KeyName::Messages), StoredBody::in_message),
        };
        let values = self.values_of(queue, &key, names.iter().cloned()).await?;
        let bodies = names.into_iter().zip(values).filter_map(|(name, value)| find(name, value?));
        Ok((bodies.collect(), place))
    }

    /// Lists bodies of the outbox from its end, because values leave it at its beginning. `place`
    /// is the number of values that were visited.
    async fn list_in_outbox(&self, queue: &QueueId, place: &Bytes) -> Result<(Vec<StoredBody>, Option<Bytes>), Error> {
        let visited = if place.is_empty() { 0 } else { reply::parse_number(&String::from_utf8_lossy(place))? };
        let (first, last) = (format!("-{}", visited + MOVING_PER_STEP), format!("-{}", visited + 1));
        let key = QueueKeys::of(queue).key(KeyName::Outbox);
        let mut reply = self.read_values(queue, "LRANGE", &key, &[&first, &last]).await?;
        let place = (!reply.is_empty()).then(|| arguments::number(visited + MOVING_PER_STEP));
        let mut bodies = Vec::new();
        while !reply.is_empty() {
            let value = reply.bytes()?;
            let at = record_at(&value)?;
            bodies.extend(StoredBody::find(SealedPart::Outbox, Bytes::new(), value, at));
        }
        Ok((bodies, place))
    }
}

fn name_of(part: SealedPart) -> Bytes {
    Bytes::from_static(match part {
        SealedPart::Messages => b"messages",
        SealedPart::Retries => b"retries",
        SealedPart::Outbox => b"outbox",
    })
}

/// Divides replacements into batches of one part each, whose values have at most this many bytes
/// unless there is only one.
fn batches(mut rest: &[SealedReplacement], bytes_max: usize) -> impl Iterator<Item = &[SealedReplacement]> {
    std::iter::from_fn(move || {
        let part = rest.first()?.stored.part;
        let mut bytes = 0;
        let end = rest.iter().position(|replacement| {
            bytes += replacement.value.len();
            replacement.stored.part != part || bytes > bytes_max
        });
        let (batch, after) = rest.split_at(end.unwrap_or(rest.len()).max(1));
        rest = after;
        Some(batch)
    })
}
