//! Forwards dead letters from the outbox of their queue to the queue for dead letters, and messages
//! that a redrive moves to their new queue.
//!
//! The two queues may be in different slots, so a dead letter is posted first and then removed from
//! the outbox. Any process may repeat either step at any time: dead letters are numbered, and the
//! receiving queue stores the last number that it received.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tracing::warn;

use super::RedisStore;
use super::arguments;
use super::keys::QueueKeys;
use super::reply::{self, Reply};
use super::script::{DEAD_LETTER_DROP, DEAD_LETTER_LIST, DEAD_LETTER_POST, REDRIVE_RETURN, REDRIVEN};
use super::shard_digits;
use crate::domain::message::Nonce;
use crate::domain::{Metadata, Origin, QueueId, QueueName, Sharding, Tenant};
use crate::storage::entry::{Delivery, Entry, FRESH_BYTES, SizeClass, UNDELIVERED};
use crate::storage::key::{id_of, nonce_bytes};
use crate::storage::{Error, Processed, QueueStore, record};

const DEAD_LETTERS_PER_STEP: u64 = 20;
/// Maximum number of steps in one call.
const STEPS_MAX: usize = 100;
/// Maximum number of attempts to post, each of which follows a change or deletion of the queue.
const ATTEMPTS_MAX: usize = 32;
/// Maximum time that a claim waits for its dead letters to be forwarded. Forwarding continues after
/// it.
const FORWARDING_WAIT_MAX: Duration = Duration::from_millis(250);

const NUMBER_BYTES: usize = 8;
const DELIVERY_AT: usize = NUMBER_BYTES;
const ENTRY_AT: usize = DELIVERY_AT + 12;
const TARGET_AT: usize = ENTRY_AT + FRESH_BYTES;

/// A dead letter in the outbox: see `scripts/shared/dead_letters.lua`.
struct DeadLetter {
    number: u64,
    delivery: Delivery,
    entry: Entry,
    target: QueueName,
    /// Whether it is a message that a redrive moves.
    is_redriven: bool,
    record: Bytes,
}

impl RedisStore {
    /// Forwards dead letters in a task, if any are waiting. A failure does not fail the caller: the
    /// janitor tries again.
    pub(super) async fn start_forwarding(&self, source: &QueueId, waiting: u64) {
        let forwarder = if waiting > 0 { self.forwarders.start(source) } else { None };
        let Some(forwarder) = forwarder else {
            return;
        };
        let this = self.clone();
        let forwarding = tokio::spawn(async move { this.forward_dead_letters(&forwarder.source).await });
        match timeout(FORWARDING_WAIT_MAX, forwarding).await {
            Ok(Ok(Ok(_left))) => {}
            Ok(Ok(Err(error))) => warn!(queue = %source, %error, "cannot forward dead letters"),
            Ok(Err(_)) | Err(_) => {
                warn!(queue = %source, "forwarding dead letters takes long and continues in the background");
            }
        }
    }

    /// Forwards the dead letters of an outbox in order. Returns how many are left.
    pub(super) async fn forward_dead_letters(&self, source: &QueueId) -> Result<u64, Error> {
        let keys = QueueKeys::of(source);
        let mut left = 0;
        for _ in 0..STEPS_MAX {
            let mut reply =
                self.connection.run(&DEAD_LETTER_LIST, &keys, &[arguments::number(DEAD_LETTERS_PER_STEP)]).await?;
            let mut dead_letters = Vec::new();
            while !reply.is_empty() {
                dead_letters.push(read_dead_letter(&reply.bytes()?)?);
            }
            let Some(last) = dead_letters.last() else {
                return Ok(0);
            };
            let is_alike = |one: &DeadLetter, next: &DeadLetter| {
                (&one.target, one.is_redriven) == (&next.target, next.is_redriven)
            };
            for batch in dead_letters.chunk_by(is_alike) {
                self.post_dead_letters(source, batch).await?;
            }
            let args = [arguments::number(last.number), arguments::number(dead_letters.len() as u64)];
            left = self.connection.run(&DEAD_LETTER_DROP, &keys, &args).await?.number()?;
            let dead_lettered = dead_letters.iter().filter(|dead_letter| !dead_letter.is_redriven).count() as u64;
            self.count(Processed { dead_lettered, ..Processed::default() });
            if left == 0 {
                break;
            }
        }
        Ok(left)
    }

    /// Posts dead letters, or messages of a redrive, to the queue that all of them go to. If it does
    /// not exist, it is created for dead letters, but messages of a redrive return to the source.
    async fn post_dead_letters(&self, source: &QueueId, dead_letters: &[DeadLetter]) -> Result<(), Error> {
        let target = QueueId::new(source.project().clone(), dead_letters[0].target.clone())
            .map_err(|error| Error::Corrupt(format!("a dead letter of {source}: {error}")))?;
        let mut sharding = None;
        for _ in 0..ATTEMPTS_MAX {
            let args = post_args(source, dead_letters, sharding)?;
            let (kind, mut reply) = self.run_applying_due(&DEAD_LETTER_POST, &target, &args).await?;
            match kind.as_str() {
                "posted" => return Ok(()),
                "absent" if dead_letters[0].is_redriven => return self.return_redriven(source, dead_letters).await,
                "absent" => drop(self.create_queue(&target, &Metadata::default()).await?),
                "fair" => sharding = read_sharding(&mut reply)?,
                kind => return Err(reply::unknown_kind(DEAD_LETTER_POST.name, kind)),
            }
        }
        Err(Error::Unavailable(format!(
            "cannot post dead letters to queue {target}: it changed during each of {ATTEMPTS_MAX} attempts"
        )))
    }

    /// Returns messages of a redrive from the outbox to the source, because their new queue does
    /// not exist any more.
    async fn return_redriven(&self, source: &QueueId, messages: &[DeadLetter]) -> Result<(), Error> {
        let outermost = [&messages[0], &messages[messages.len() - 1]];
        let args = outermost.map(|message| arguments::number(message.number));
        self.connection.run(&REDRIVE_RETURN, &QueueKeys::of(source), &args).await.map(drop)
    }
}

/// Returns the arguments of the script that posts dead letters. In a fair queue they include the
/// shards of each tenant, which is the client that posted the message.
fn post_args(source: &QueueId, dead_letters: &[DeadLetter], sharding: Option<Sharding>) -> Result<Vec<Bytes>, Error> {
    let packed = |sharding: Sharding| [sharding.shards(), sharding.per_tenant()].map(u16::to_be_bytes).concat();
    let division = sharding.map_or_else(Bytes::new, |sharding| packed(sharding).into());
    let flag: &[u8] = if dead_letters[0].is_redriven { b"redriven" } else { b"" };
    let mut args = vec![Bytes::copy_from_slice(source.name().as_str().as_bytes()), division, Bytes::from_static(flag)];
    for dead_letter in dead_letters {
        let DeadLetter { delivery, entry, .. } = dead_letter;
        let record = arriving_record(source, dead_letter)?;
        let assignment = sharding.map(|sharding| sharding.assign(&Tenant::of_poster(entry.poster)));
        let poster_and_size = Entry::poster_and_size(entry.poster, SizeClass::of(record.len()));
        args.push(arguments::number(dead_letter.number));
        args.push([&nonce_bytes(Nonce::random())[..], &poster_and_size].concat().into());
        args.push(entry_tail(*delivery, dead_letter.is_redriven).into());
        args.push(record);
        args.push(assignment.map_or_else(Bytes::new, |assignment| shard_digits::encode_all(&assignment.shards).into()));
    }
    Ok(args)
}

/// Returns the record of a message in its new queue.
fn arriving_record(source: &QueueId, message: &DeadLetter) -> Result<Bytes, Error> {
    let DeadLetter { delivery, entry, record, .. } = message;
    let id = id_of(source, &entry.key)?;
    if message.is_redriven {
        return record::redriven(id, record, u64::from(delivery.end_s.saturating_sub(delivery.ttl_s + 1)));
    }
    let origin = Origin { queue: source.name().clone(), id, claim_count: delivery.count };
    let ttl_s = if delivery.ttl_s > 0 { delivery.ttl_s } else { record::ttl_s(id, record)? };
    record::dead_letter(record, entry, &origin, ttl_s)
}

/// Returns the rest of the entry of a message that has arrived: its end, and the delivery state of a
/// dead letter in the new queue.
fn entry_tail(delivery: Delivery, is_redriven: bool) -> Vec<u8> {
    let end = [delivery.end_s];
    let state = [delivery.count | UNDELIVERED, 0, delivery.end_s];
    let state = if is_redriven { &state[..0] } else { &state[..] };
    end.iter().chain(state).copied().flat_map(u32::to_be_bytes).collect()
}

fn read_sharding(reply: &mut Reply) -> Result<Option<Sharding>, Error> {
    let [shards, per_tenant] = [reply.number()?, reply.number()?].map(|number| u16::try_from(number).unwrap_or(0));
    Ok(Sharding::new(shards, per_tenant))
}

/// Returns where the record of the message begins in a value of the outbox.
pub(super) fn record_at(dead_letter: &[u8]) -> Result<usize, Error> {
    let name_bytes = dead_letter.get(TARGET_AT).ok_or_else(too_short)?;
    Ok(TARGET_AT + 1 + usize::from(name_bytes & !REDRIVEN))
}

fn too_short() -> Error {
    Error::Corrupt("a dead letter is too short".to_owned())
}

fn read_dead_letter(dead_letter: &Bytes) -> Result<DeadLetter, Error> {
    let record = record_at(dead_letter)?;
    let is_redriven = dead_letter[TARGET_AT] & REDRIVEN != 0;
    let target = str::from_utf8(dead_letter.get(TARGET_AT + 1..record).ok_or_else(too_short)?);
    Ok(DeadLetter {
        number: u64::from_be_bytes(dead_letter[..NUMBER_BYTES].try_into().expect("eight bytes")),
        delivery: Delivery::decode(&dead_letter[DELIVERY_AT..ENTRY_AT]),
        entry: Entry::decode(&dead_letter[ENTRY_AT..TARGET_AT])?,
        target: target.ok().and_then(|name| name.parse().ok()).ok_or_else(too_short)?,
        is_redriven,
        record: dead_letter.slice(record..),
    })
}
