//! Messages in Redis: post, list, get, delete, pop, restore and purge; and statistics of a queue.

use std::collections::HashSet;

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::arguments;
use super::keys::QueueKeys;
use super::message_records::read_entries;
use super::reply::{self, Reply};
use super::script::{
    MESSAGE_DELETE, MESSAGE_DELETE_MANY, MESSAGE_GET, MESSAGE_LIST, MESSAGE_POP, MESSAGE_RESTORE, QUEUE_GET_STATS,
    QUEUE_PURGE, QUEUE_SHARDS,
};
use super::shard_digits;
use crate::entry::Entry;
use crate::key::{self, Key, id_of};
use crate::{DeleteOutcome, Error, Listing, MessageStore, Page, Popped, Post, PostOutcome, Processed, record};
use sukkal_domain::sharding::SHARDS_MAX;
use sukkal_domain::{
    ClaimId, Details, Durability, Holding, Message, MessageId, Order, QueueId, Rank, Shard, Stats, Taken, Tenant,
};

/// Number of shards that one script counts.
const SHARDS_PER_STEP: u16 = 128;

#[async_trait]
impl MessageStore for RedisStore {
    async fn post_messages(&self, queue: &QueueId, post: &Post<'_>) -> Result<PostOutcome, Error> {
        self.confirmer.note_use(queue);
        self.post_batcher.post(queue, post).await
    }

    async fn check_durability(&self, queue: &QueueId, level: Durability) -> Result<(), Error> {
        self.connection.check_durability(queue, level).await
    }

    async fn list_messages(&self, queue: &QueueId, listing: &Listing) -> Result<Page, Error> {
        self.confirmer.note_use(queue);
        let start = match listing.order {
            Order::OldestFirst => 0,
            Order::NewestFirst => Rank::MAX.micros() + 1,
        };
        let mut after = listing.after.map_or(start, Rank::micros);
        loop {
            let mut listed = self.list_entries(queue, listing, after).await?;
            let messages = if listing.with_states {
                self.listed_with_states(queue, listing, &mut listed).await?
            } else {
                self.messages_of(queue, listed.now_us, &listed.entries).await?
            };
            let is_complete = messages.iter().all(Option::is_some);
            let mut messages: Vec<Message> = messages.into_iter().flatten().collect();
            if !is_complete {
                // Some messages were deleted after the script ran. A second script says which of
                // the others are still listed, and those are the page. So the page has no message
                // that was claimed or deleted before the second script, and lacks no message before
                // its last one.
                let relisted = self.list_entries(queue, listing, after).await?;
                let still_listed: HashSet<Key> = relisted.entries.iter().map(|entry| entry.key).collect();
                messages.retain(|message| still_listed.contains(&key::key_of(message.id)));
            }
            if messages.is_empty() && !listed.is_last {
                after = listed.position;
                continue;
            }
            let EntryPage { delays, is_fair, is_last, position, .. } = listed;
            let last = messages.last().map(|message| message.id.rank());
            return Ok(Page { messages, delays, is_fair, is_last, reached: last.or(Rank::new(position)) });
        }
    }

    async fn get_messages(&self, queue: &QueueId, ids: &[MessageId], with_states: bool) -> Result<Vec<Message>, Error> {
        let keys = arguments::message_keys(&own_ids(queue, ids));
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        if with_states {
            let peeked = self.peek(queue, &keys).await?;
            return Ok(self
                .messages_of_peeked(queue, peeked.now_us, peeked.messages)
                .await?
                .into_iter()
                .flatten()
                .collect());
        }
        let (_found, mut reply) = self.run_applying_due(&MESSAGE_GET, queue, &keys).await?;
        let now_us = reply.number()?;
        Ok(self.read_messages(queue, now_us, reply).await?.into_iter().flatten().collect())
    }

    async fn delete_message(
        &self,
        queue: &QueueId,
        id: MessageId,
        claim: Option<ClaimId>,
    ) -> Result<DeleteOutcome, Error> {
        if !id.is_of(queue) {
            return Ok(DeleteOutcome::Done);
        }
        let args = [arguments::message_key(id), claim.map_or_else(Bytes::new, arguments::claim)];
        let (kind, mut reply) = self.run_applying_due(&MESSAGE_DELETE, queue, &args).await?;
        match kind.as_str() {
            "done" => self.count_deletion(&mut reply),
            "claimed" => Ok(DeleteOutcome::ClaimRequired),
            "unclaimed" => Ok(DeleteOutcome::NotClaimed),
            "claimed_by_other" => Ok(DeleteOutcome::ClaimedByAnother),
            "unknown_claim" => Ok(DeleteOutcome::UnknownClaim),
            kind => Err(reply::unknown_kind(MESSAGE_DELETE.name, kind)),
        }
    }

    async fn delete_messages(&self, queue: &QueueId, ids: &[MessageId]) -> Result<(), Error> {
        self.delete_many(queue, ids, Bytes::new(), &[]).await.map(|_done| ())
    }

    async fn delete_claimed(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims: &[ClaimId],
    ) -> Result<DeleteOutcome, Error> {
        self.delete_many(queue, ids, arguments::number(claims.len() as u64), claims).await
    }

    async fn pop_messages(&self, queue: &QueueId, pop: ClaimId, limit: usize) -> Result<Taken<Vec<Popped>>, Error> {
        self.confirmer.note_use(queue);
        let args = [arguments::number(limit as u64), arguments::claim(pop)];
        let Some((kind, mut reply)) = self.take_next(&MESSAGE_POP, queue, &args).await? else {
            return Ok(Taken::Nothing);
        };
        match kind.as_str() {
            "paused" => Ok(Taken::Paused),
            "popped" => {
                let popped = read_popped(queue, pop, &mut reply)?;
                if reply.is_repeated && !popped.is_empty() {
                    self.pops.note_repeated(pop);
                }
                let count = popped.len() as u64;
                self.count(Processed { claimed: count, deleted: count, ..Processed::default() });
                Ok(if popped.is_empty() { Taken::Nothing } else { Taken::Messages(popped) })
            }
            kind => Err(reply::unknown_kind(MESSAGE_POP.name, kind)),
        }
    }

    async fn complete_pop(&self, queue: &QueueId, pop: ClaimId) -> Result<(), Error> {
        self.pops.complete(&self.connection, queue, pop).await
    }

    async fn restore_messages(&self, queue: &QueueId, popped: &[Popped]) -> Result<(), Error> {
        let Some(first) = popped.first() else {
            return Ok(());
        };
        let keys = popped.iter().map(|one| arguments::message_key(one.message.id));
        let args: Vec<Bytes> = [arguments::claim(first.pop)].into_iter().chain(keys).collect();
        self.run_applying_due(&MESSAGE_RESTORE, queue, &args).await.map(|_done| ())
    }

    async fn purge_queue(&self, queue: &QueueId) -> Result<(), Error> {
        self.connection.run(&QUEUE_PURGE, &QueueKeys::of(queue), &[]).await.map(|_done| ())
    }

    async fn get_stats(&self, queue: &QueueId, detailed: bool) -> Result<Stats, Error> {
        let (_stats, mut reply) = self.run_applying_due(&QUEUE_GET_STATS, queue, &[]).await?;
        let (now_us, exists, total) = (reply.number()?, reply.number()? == 1, reply.number()?);
        let [_available, _delayed, claimed] = [reply.number()?, reply.number()?, reply.number()?];
        let mut outermost = self.read_messages(queue, now_us, reply).await?.into_iter();
        let (oldest, newest) = (outermost.next().flatten(), outermost.next().flatten());
        let details = if detailed { Some(self.read_details(queue).await?) } else { None };
        Ok(Stats { exists, total, claimed, oldest, newest, details })
    }
}

/// The entries of a page, and the state of the feed around it.
struct EntryPage {
    now_us: u64,
    delays: bool,
    is_fair: bool,
    is_last: bool,
    /// Rank of the last entry that was examined.
    position: u64,
    entries: Vec<Entry>,
}

impl RedisStore {
    /// Selects the entries of a page after a rank.
    async fn list_entries(&self, queue: &QueueId, listing: &Listing, after: u64) -> Result<EntryPage, Error> {
        let not_from = listing.not_from.as_ref().map(|client| client.poster().as_bytes().to_vec());
        let flag_if = |wanted, flag: &'static str| Bytes::from_static(if wanted { flag } else { "" }.as_bytes());
        let args = [
            arguments::number(after),
            arguments::number(listing.limit as u64),
            not_from.unwrap_or_default().into(),
            flag_if(listing.scope.claimed, "claimed"),
            flag_if(listing.scope.delayed, "delayed"),
            flag_if(listing.order == Order::NewestFirst, "newest"),
        ];
        let (_page, mut reply) = self.run_applying_due(&MESSAGE_LIST, queue, &args).await?;
        let now_us = reply.number()?;
        let [delays, is_fair, is_last] = [reply.number()? == 1, reply.number()? == 1, reply.number()? == 1];
        let position = reply.number()?;
        Ok(EntryPage { now_us, delays, is_fair, is_last, position, entries: read_entries(reply)? })
    }

    /// Returns the messages of a page with their states. Without messages that have been deleted
    /// since, and without those that the listing no longer includes, because they have been
    /// claimed. Shortens the page if the claims of its messages are large.
    async fn listed_with_states(
        &self,
        queue: &QueueId,
        listing: &Listing,
        page: &mut EntryPage,
    ) -> Result<Vec<Option<Message>>, Error> {
        let keys: Vec<Bytes> = page.entries.iter().map(|entry| Bytes::copy_from_slice(&entry.key)).collect();
        let mut peeked = self.peek_some(queue, &keys).await?;
        if peeked.examined < page.entries.len() {
            page.entries.truncate(peeked.examined);
            page.is_last = false;
            page.position = page.entries.last().map_or(page.position, |last| key::rank_of(&last.key));
        }
        peeked.messages.retain(|peeked| listing.scope.claimed || !peeked.is_in_flight);
        self.messages_of_peeked(queue, peeked.now_us, peeked.messages).await
    }

    /// Counts the messages of each shard, some shards per script. Each count is exact at the moment
    /// of its script.
    async fn read_details(&self, queue: &QueueId) -> Result<Details, Error> {
        let mut details = Details::default();
        for first in (0..SHARDS_MAX).step_by(SHARDS_PER_STEP.into()) {
            let [first, last] =
                [first, first + SHARDS_PER_STEP - 1].map(|shard| shard_digits::encode(shard).to_vec().into());
            let (_shards, mut reply) = self.run_applying_due(&QUEUE_SHARDS, queue, &[first, last]).await?;
            read_shards(&mut reply, &mut details)?;
        }
        details.shards.sort_unstable_by_key(|(shard, _)| *shard);
        Ok(details)
    }

    async fn delete_many(
        &self,
        queue: &QueueId,
        ids: &[MessageId],
        claims_needed: Bytes,
        claims: &[ClaimId],
    ) -> Result<DeleteOutcome, Error> {
        let ids = own_ids(queue, ids);
        if ids.is_empty() {
            return Ok(DeleteOutcome::Done);
        }
        let mut args = vec![claims_needed];
        args.extend(claims.iter().copied().map(arguments::claim));
        args.extend(arguments::message_keys(&ids));
        let (kind, mut reply) = self.run_applying_due(&MESSAGE_DELETE_MANY, queue, &args).await?;
        match kind.as_str() {
            "done" => self.count_deletion(&mut reply),
            "unclaimed" => Ok(DeleteOutcome::NotClaimed),
            kind => Err(reply::unknown_kind(MESSAGE_DELETE_MANY.name, kind)),
        }
    }

    /// Counts the messages that a script has deleted, by the rest of its reply.
    fn count_deletion(&self, reply: &mut Reply) -> Result<DeleteOutcome, Error> {
        self.count(Processed { deleted: reply.number()?, ..Processed::default() });
        Ok(DeleteOutcome::Done)
    }
}

/// Reads the messages of a pop.
fn read_popped(queue: &QueueId, pop: ClaimId, reply: &mut Reply) -> Result<Vec<Popped>, Error> {
    let now_us = reply.number()?;
    reply.read_all(|reply| {
        let (entry, record) = (reply.bytes()?, reply.bytes()?);
        let decoded = Entry::decode(&entry)?;
        let message = record::message(id_of(queue, &decoded.key)?, &decoded, &record, now_us)?;
        let pickup_delay = decoded.delivery.is_none().then(|| message.pickup_delay(now_us));
        Ok(Popped { message, pickup_delay, is_final: false, record, entry, shard: None, epoch: 0, pop })
    })
}

/// Adds the counts of some shards to the details.
fn read_shards(reply: &mut Reply, details: &mut Details) -> Result<(), Error> {
    let now_us = reply.number()?;
    details.unsharded = read_holding(reply, now_us)?;
    for _ in 0..reply.number()? {
        let number = reply.number()?;
        let shard = u16::try_from(number).ok().and_then(Shard::new);
        let shard = shard.ok_or_else(|| Error::Corrupt(format!("{number} is not a shard")))?;
        details.shards.push((shard, read_holding(reply, now_us)?));
    }
    let counts = reply.read_all(|reply| {
        let (name, count) = (reply.text()?, reply.text()?);
        let count: f64 = count.parse().map_err(|_| Error::Corrupt(format!("{name} has posted {count:?} messages")))?;
        Ok((Tenant::from_store(&name), count))
    })?;
    details.tenants = Details::shares(counts);
    Ok(())
}

/// Reads the numbers of available, delayed and in-flight messages, and the rank of the oldest
/// available one or 0.
pub(super) fn read_holding(reply: &mut Reply, now_us: u64) -> Result<Holding, Error> {
    let [available, delayed, claimed] = [reply.number()?, reply.number()?, reply.number()?];
    let oldest = Some(reply.number()?).filter(|rank| *rank > 0);
    let oldest_age_s = oldest.map(|rank| now_us.saturating_sub(rank) / 1_000_000);
    Ok(Holding { available, delayed, claimed, oldest_age_s })
}

/// Returns those ids that can name a message of this queue. A message key does not contain the
/// queue's fingerprint, so it alone does not show that.
fn own_ids(queue: &QueueId, ids: &[MessageId]) -> Vec<MessageId> {
    ids.iter().copied().filter(|id| id.is_of(queue)).collect()
}
