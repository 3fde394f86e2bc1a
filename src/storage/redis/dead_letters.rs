//! Dead letters in Redis: from the outbox of the queue where they were delivered too often to the queue for them.
//!
//! The two queues may be in different slots, so a dead letter is posted first and then dropped from the outbox. Either step may
//! be repeated, by anybody, at any time: dead letters are numbered, and the queue that they go to keeps the last number that it
//! received.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use tracing::warn;

use super::RedisStore;
use super::keys::QueueKeys;
use super::messages::text;
use super::reply::{self, Reply};
use super::script::{DEAD_LETTER_DROP, DEAD_LETTER_LIST, DEAD_LETTER_POST};
use super::shards;
use crate::domain::message::Nonce;
use crate::domain::{Metadata, Origin, QueueId, QueueName, Sharding, Tenant};
use crate::storage::entry::{Delivery, Entry, FRESH_BYTES, SizeClass, UNDELIVERED};
use crate::storage::key::{id_of, nonce_bytes};
use crate::storage::{Error, QueueStore, record};

const DEAD_LETTERS_PER_STEP: u64 = 20;
/// Maximum number of steps at a time.
const STEPS_MAX: usize = 100;
/// How often a dead letter follows a queue that is deleted under it.
const TRIES_MAX: usize = 32;
/// How long a claim waits for its dead letters. They go on without it.
const PATIENCE: Duration = Duration::from_millis(250);

const NUMBER_BYTES: usize = 8;
const DELIVERY: usize = NUMBER_BYTES;
const ENTRY: usize = DELIVERY + 12;
const TARGET: usize = ENTRY + FRESH_BYTES;

/// A dead letter as it stands in the outbox: see `scripts/shared/dead_letters.lua`.
struct DeadLetter {
    number: u64,
    delivery: Delivery,
    entry: Entry,
    target: QueueName,
    record: Bytes,
}

/// The queues whose dead letters this process forwards right now: one task for each, because the queue that they go to may be
/// out of reach for long.
#[derive(Clone, Default)]
pub(super) struct Forwarders(Arc<Mutex<HashSet<QueueId>>>);

/// Forwards from one queue, until it is dropped.
struct Forwarder {
    forwarders: Forwarders,
    source: QueueId,
}

impl Forwarders {
    /// A forwarder, unless one is under way already.
    fn start(&self, source: &QueueId) -> Option<Forwarder> {
        let is_first = self.sources().insert(source.clone());
        is_first.then(|| Forwarder { forwarders: self.clone(), source: source.clone() })
    }

    fn sources(&self) -> MutexGuard<'_, HashSet<QueueId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.forwarders.sources().remove(&self.source);
    }
}

impl RedisStore {
    /// Forwards the dead letters that were found to wait, if any. A failure is no failure of the caller: the janitor tries again.
    pub(super) async fn start_forwarding(&self, source: &QueueId, waiting: u64) {
        let forwarder = if waiting > 0 { self.forwarders.start(source) } else { None };
        let Some(forwarder) = forwarder else {
            return;
        };
        let this = self.clone();
        let forwarding = tokio::spawn(async move { this.forward_dead_letters(&forwarder.source).await });
        match timeout(PATIENCE, forwarding).await {
            Ok(Ok(Ok(_left))) => {}
            Ok(Ok(Err(error))) => warn!(queue = %source, %error, "cannot forward dead letters"),
            Ok(Err(_)) | Err(_) => warn!(queue = %source, "forwarding dead letters takes long"),
        }
    }

    /// Forwards the dead letters of an outbox in order. Returns how many are left for the next caller.
    pub(super) async fn forward_dead_letters(&self, source: &QueueId) -> Result<u64, Error> {
        let keys = QueueKeys::of(source);
        let mut left = 0;
        for _ in 0..STEPS_MAX {
            let mut reply = self.connection.run(&DEAD_LETTER_LIST, &keys, &[text(DEAD_LETTERS_PER_STEP)]).await?;
            let mut letters = Vec::new();
            while !reply.is_empty() {
                letters.push(read_dead_letter(&reply.bytes()?)?);
            }
            let Some(last) = letters.last() else {
                return Ok(0);
            };
            for batch in letters.chunk_by(|one, next| one.target == next.target) {
                self.post_dead_letters(source, batch).await?;
            }
            let args = [text(last.number), text(letters.len() as u64)];
            left = self.connection.run(&DEAD_LETTER_DROP, &keys, &args).await?.number()?;
            if left == 0 {
                break;
            }
        }
        Ok(left)
    }

    /// Posts dead letters to the queue that all of them go to, creating it if need be.
    async fn post_dead_letters(&self, source: &QueueId, letters: &[DeadLetter]) -> Result<(), Error> {
        let target = QueueId::new(source.project().clone(), letters[0].target.clone())
            .map_err(|error| Error::Corrupt(format!("a dead letter of {source}: {error}")))?;
        let mut sharding = None;
        for _ in 0..TRIES_MAX {
            let args = post_args(source, letters, sharding)?;
            let (kind, mut reply) = self.run_settled(&DEAD_LETTER_POST, &target, &args).await?;
            match kind.as_str() {
                "posted" => return Ok(()),
                "absent" => drop(self.create_queue(&target, &Metadata::default()).await?),
                "fair" => sharding = read_sharding(&mut reply)?,
                kind => return Err(reply::unknown(DEAD_LETTER_POST.name, kind)),
            }
        }
        Err(Error::Unavailable(format!("queue {target} changes too often")))
    }
}

/// What the script needs to post dead letters, in a fair queue with the shards of their tenants: the clients that posted them.
fn post_args(source: &QueueId, letters: &[DeadLetter], sharding: Option<Sharding>) -> Result<Vec<Bytes>, Error> {
    let packed = |sharding: Sharding| [sharding.shards(), sharding.per_tenant()].map(u16::to_be_bytes).concat();
    let division = sharding.map_or_else(Bytes::new, |sharding| packed(sharding).into());
    let mut args = vec![Bytes::copy_from_slice(source.name().as_str().as_bytes()), division];
    for letter in letters {
        let DeadLetter { delivery, entry, .. } = letter;
        let id = id_of(source, &entry.key)?;
        let origin = Origin { queue: source.name().clone(), id, claim_count: delivery.count };
        let ttl_s = if delivery.ttl_s > 0 { delivery.ttl_s } else { record::ttl_s(id, &letter.record)? };
        let record = record::dead_letter(&letter.record, entry, &origin, ttl_s)?;
        let lot = sharding.map(|sharding| sharding.draw(&Tenant::of_poster(entry.poster)));
        let place = Entry::poster_and_size(entry.poster, SizeClass::of(record.len()));
        args.push(text(letter.number));
        args.push([&nonce_bytes(Nonce::random())[..], &place].concat().into());
        args.push(arrived(*delivery).into());
        args.push(record);
        args.push(lot.map_or_else(Bytes::new, |lot| shards::digits_of(&lot.shards).into()));
    }
    Ok(args)
}

/// The rest of the entry of a dead letter that has arrived: its end, and its delivery state in the new queue.
fn arrived(delivery: Delivery) -> Vec<u8> {
    let state = [delivery.end_s, delivery.count | UNDELIVERED, 0, delivery.end_s];
    state.into_iter().flat_map(u32::to_be_bytes).collect()
}

fn read_sharding(reply: &mut Reply) -> Result<Option<Sharding>, Error> {
    let [shards, per_tenant] = [reply.number()?, reply.number()?].map(|number| u16::try_from(number).unwrap_or(0));
    Ok(Sharding::new(shards, per_tenant))
}

fn read_dead_letter(letter: &Bytes) -> Result<DeadLetter, Error> {
    let corrupt = || Error::Corrupt("a dead letter is too short".to_owned());
    let name_bytes = letter.get(TARGET).ok_or_else(corrupt)?;
    let record = TARGET + 1 + usize::from(*name_bytes);
    let target = str::from_utf8(letter.get(TARGET + 1..record).ok_or_else(corrupt)?);
    Ok(DeadLetter {
        number: u64::from_be_bytes(letter[..NUMBER_BYTES].try_into().expect("eight bytes")),
        delivery: Delivery::decode(&letter[DELIVERY..ENTRY]),
        entry: Entry::decode(&letter[ENTRY..TARGET])?,
        target: target.ok().and_then(|name| name.parse().ok()).ok_or_else(corrupt)?,
        record: letter.slice(record..),
    })
}
