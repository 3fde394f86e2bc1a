//! The outbox of a queue in Redis, and the arrival of messages from other queues: dead letters, and
//! messages that a redrive moves. `storage/outbox.rs` forwards them.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::arguments;
use super::keys::QueueKeys;
use super::reply::{self, Reply};
use super::script::{DEAD_LETTER_DROP, DEAD_LETTER_LIST, DEAD_LETTER_POST, REDRIVE_RETURN, Script};
use super::shard_digits;
use crate::entry::Entry;
use crate::key::nonce_bytes;
use crate::moved_messages::{Arrival, Destinations, MovedBatch, MovedMessageStore, OutgoingMessage, QueueEpoch};
use crate::outbox::{self, Forwarders, LISTED_PER_STEP, Outboxes};
use crate::{DEAD_LETTER_STEPS_MAX, Error, Processed, WatchStore};
use sukkal_domain::message::Nonce;
use sukkal_domain::{QueueId, Sharding, Tenant};

/// Maximum number of attempts to post, each of which follows a change of the number of shards.
const ATTEMPTS_MAX: usize = 32;

impl RedisStore {
    /// Forwards dead letters in a task, if any are waiting.
    pub(super) async fn start_forwarding(&self, source: &QueueId, waiting: u64) {
        if waiting > 0 {
            outbox::start_forwarding(self, source).await;
        }
    }

    /// Runs a script that takes messages. If all that it selects become dead letters, it runs again
    /// and selects the next ones, in at most [`DEAD_LETTER_STEPS_MAX`] batches, or one if the queue
    /// is its own dead-letter queue. Then it notifies the waiters of this process, because there
    /// may be others, and returns `None`.
    pub(super) async fn take_next(
        &self,
        script: &Script,
        queue: &QueueId,
        args: &[Bytes],
    ) -> Result<Option<(String, Reply)>, Error> {
        for _ in 0..DEAD_LETTER_STEPS_MAX {
            let (kind, mut reply) = self.connection.take(script, &QueueKeys::of(queue), args).await?;
            self.start_forwarding(queue, reply.number()?).await;
            if kind != "moved" {
                return Ok(Some((kind, reply)));
            } else if reply.number()? > 0 {
                break;
            }
        }
        self.watchers().notify_all(queue);
        Ok(None)
    }

    /// Forwards the messages of an outbox in order. Returns how many are left.
    pub(super) async fn forward_dead_letters(&self, source: &QueueId) -> Result<u64, Error> {
        outbox::forward(self, source).await
    }
}

#[async_trait]
impl Outboxes for RedisStore {
    fn destinations(&self) -> Result<Arc<dyn Destinations>, Error> {
        self.other_stores.destinations(self)
    }

    fn forwarders(&self) -> &Forwarders {
        &self.forwarders
    }

    async fn list_outbox(&self, source: &QueueId) -> Result<Vec<OutgoingMessage>, Error> {
        let args = [arguments::number(LISTED_PER_STEP as u64)];
        let mut reply = self.connection.run(&DEAD_LETTER_LIST, &QueueKeys::of(source), &args).await?;
        reply.read_all(|reply| OutgoingMessage::decode(&reply.bytes()?))
    }

    async fn drop_delivered(&self, source: &QueueId, delivered: &[OutgoingMessage]) -> Result<u64, Error> {
        let last = delivered.last().map_or(0, |outgoing| outgoing.message.number);
        let args = [last, delivered.len() as u64].map(arguments::number);
        let left = self.connection.run(&DEAD_LETTER_DROP, &QueueKeys::of(source), &args).await?.number()?;
        let dead_lettered = delivered.iter().filter(|outgoing| outgoing.target.epoch.is_none()).count() as u64;
        self.count(Processed { dead_lettered, ..Processed::default() });
        Ok(left)
    }

    async fn return_redriven(&self, batch: &MovedBatch) -> Result<(), Error> {
        let (first, last) = batch.numbers();
        let args = [first, last].map(arguments::number);
        self.connection.run(&REDRIVE_RETURN, &QueueKeys::of(&batch.source), &args).await.map(drop)
    }
}

#[async_trait]
impl MovedMessageStore for RedisStore {
    async fn queue_epoch(&self, queue: &QueueId) -> Result<Option<QueueEpoch>, Error> {
        let key = QueueKeys::of(queue).queue();
        let epoch = self.connection.command("HGET", &key, &["e"]).await?.text_or_nil()?;
        epoch.map(|epoch| reply::parse_number(&epoch).map(QueueEpoch)).transpose()
    }

    async fn receive_moved(&self, batch: &MovedBatch) -> Result<Arrival, Error> {
        let mut sharding = None;
        for _ in 0..ATTEMPTS_MAX {
            let args = post_args(batch, sharding)?;
            let (kind, mut reply) = self.run_applying_due(&DEAD_LETTER_POST, &batch.target, &args).await?;
            match kind.as_str() {
                "posted" => return Ok(Arrival::Posted),
                "absent" => return Ok(Arrival::NoQueue),
                "fair" => sharding = read_sharding(&mut reply)?,
                kind => return Err(reply::unknown_kind(DEAD_LETTER_POST.name, kind)),
            }
        }
        Err(Error::Unavailable(format!(
            "cannot post dead letters to queue {}: it changed during each of {ATTEMPTS_MAX} attempts",
            batch.target
        )))
    }
}

/// Returns the arguments of the script that posts dead letters. In a fair queue they include the
/// shards of each tenant, which is the client that posted the message.
fn post_args(batch: &MovedBatch, sharding: Option<Sharding>) -> Result<Vec<Bytes>, Error> {
    let packed = |sharding: Sharding| [sharding.shards(), sharding.per_tenant()].map(u16::to_be_bytes).concat();
    let division = sharding.map_or_else(Bytes::new, |sharding| packed(sharding).into());
    let epoch = batch.epoch.map_or_else(Bytes::new, |epoch| arguments::number(epoch.0));
    let source = Bytes::copy_from_slice(batch.source.name().as_str().as_bytes());
    let mut args = vec![source, division, epoch];
    for message in &batch.messages {
        let arriving = message.arriving(&batch.source, batch.epoch.is_some())?;
        let assignment = sharding.map(|sharding| sharding.assign(&Tenant::of_poster(arriving.poster)));
        let poster_and_size = Entry::poster_and_size(arriving.poster, arriving.size);
        let state = arriving.delivery.map(|delivery| delivery.encode());
        args.push(arguments::number(message.number));
        args.push([&nonce_bytes(Nonce::random())[..], &poster_and_size].concat().into());
        args.push([&arriving.end_s.to_be_bytes()[..], state.as_ref().map_or(&[], |state| state)].concat().into());
        args.push(arriving.record);
        args.push(assignment.map_or_else(Bytes::new, |assignment| shard_digits::encode_all(&assignment.shards).into()));
    }
    Ok(args)
}

fn read_sharding(reply: &mut Reply) -> Result<Option<Sharding>, Error> {
    let [shards, per_tenant] = [reply.number()?, reply.number()?].map(|number| u16::try_from(number).unwrap_or(0));
    Ok(Sharding::new(shards, per_tenant))
}
