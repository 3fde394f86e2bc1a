//! Dead letters in Redis: from the outbox of the queue where they died to the queue for them.
//!
//! The two queues may be in different slots, so a letter is posted first and dropped from the outbox
//! then. Either step may be repeated, by anybody, at any time: letters are numbered, and the queue
//! that they go to keeps the last number that it got.

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
use super::script::{LETTER_DROP, LETTER_LIST, LETTER_POST};
use super::shards;
use crate::domain::message::Nonce;
use crate::domain::{Metadata, Origin, QueueId, QueueName, Sharding, Tenant};
use crate::storage::key::{id_of, nonce_bytes};
use crate::storage::{Error, QueueStore, record};

const LETTERS_PER_STEP: u64 = 20;
/// So many steps are taken at a time.
const STEPS_MAX: usize = 100;
/// How often a letter follows a queue that is deleted under it.
const TRIES_MAX: usize = 32;
/// A claim waits so long for its letters. They go on without it.
const PATIENCE: Duration = Duration::from_millis(250);

/// Number, claim count, ttl, end, key and the length of the target's name.
const FIXED_BYTES: usize = 8 + 4 + 4 + 8 + 12 + 1;

/// A letter as it lies in the outbox: see `scripts/shared/letters.lua`.
struct Letter {
    number: u64,
    hold: Bytes,
    claim_count: u32,
    key: Bytes,
    target: QueueName,
    record: Bytes,
}

/// The queues that this process is delivering the letters of: one at a time for each, because the queue that
/// they go to may be out of reach for long.
#[derive(Clone, Default)]
pub(super) struct Couriers(Arc<Mutex<HashSet<QueueId>>>);

/// Delivers from one queue, until it is dropped.
struct Courier {
    couriers: Couriers,
    source: QueueId,
}

impl Couriers {
    /// A courier, unless one is under way already.
    fn send_from(&self, source: &QueueId) -> Option<Courier> {
        let is_first = self.sources().insert(source.clone());
        is_first.then(|| Courier { couriers: self.clone(), source: source.clone() })
    }

    fn sources(&self) -> MutexGuard<'_, HashSet<QueueId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Courier {
    fn drop(&mut self) {
        self.couriers.sources().remove(&self.source);
    }
}

impl RedisStore {
    /// Delivers the letters that were found to wait, if any. That they wait is no failure of whoever found
    /// them, so neither is this: the janitor comes by.
    pub(super) async fn send_letters(&self, source: &QueueId, waiting: u64) {
        let courier = if waiting > 0 { self.couriers.send_from(source) } else { None };
        let Some(courier) = courier else {
            return;
        };
        let this = self.clone();
        let delivery = tokio::spawn(async move { this.deliver_letters(&courier.source).await });
        match timeout(PATIENCE, delivery).await {
            Ok(Ok(Ok(_left))) => {}
            Ok(Ok(Err(error))) => warn!(queue = %source, %error, "dead letters wait"),
            Ok(Err(_)) | Err(_) => warn!(queue = %source, "dead letters take long"),
        }
    }

    /// Delivers the letters of an outbox in order, and says how many are left to the next who comes by.
    pub(super) async fn deliver_letters(&self, source: &QueueId) -> Result<u64, Error> {
        let mut left = 0;
        for _ in 0..STEPS_MAX {
            let keys = QueueKeys::of(source).all();
            let mut reply = self.connection.run(&LETTER_LIST, keys.clone(), vec![text(LETTERS_PER_STEP)]).await?;
            let mut letters = Vec::new();
            while !reply.is_empty() {
                letters.push(read_letter(&reply.bytes()?)?);
            }
            let Some(last) = letters.last() else {
                return Ok(0);
            };
            for batch in letters.chunk_by(|one, next| one.target == next.target) {
                self.post_letters(source, batch).await?;
            }
            let args = vec![text(last.number), text(letters.len() as u64)];
            left = self.connection.run(&LETTER_DROP, keys, args).await?.number()?;
            if left == 0 {
                break;
            }
        }
        Ok(left)
    }

    /// Posts letters to the queue that all of them go to, creating it if need be.
    async fn post_letters(&self, source: &QueueId, letters: &[Letter]) -> Result<(), Error> {
        let target = QueueId::new(source.project().clone(), letters[0].target.clone())
            .map_err(|error| Error::Corrupt(format!("a letter of {source}: {error}")))?;
        let mut sharding = None;
        for _ in 0..TRIES_MAX {
            let keys = QueueKeys::of(&target).all_and_letters();
            let mut reply = self.connection.run(&LETTER_POST, keys, post_args(source, letters, sharding)?).await?;
            match reply.text()?.as_str() {
                "posted" => return Ok(()),
                "absent" => drop(self.create_queue(&target, &Metadata::default()).await?),
                "fair" => sharding = read_sharding(&mut reply)?,
                kind => return Err(reply::unknown(LETTER_POST.name, kind)),
            }
        }
        Err(Error::Unavailable(format!("queue {target} changes too often")))
    }
}

/// What the script needs to post letters, in a fair queue with the shards that their tenants draw: who posted them.
fn post_args(source: &QueueId, letters: &[Letter], sharding: Option<Sharding>) -> Result<Vec<Bytes>, Error> {
    let packed = |sharding: Sharding| [sharding.shards(), sharding.per_tenant()].map(u16::to_be_bytes).concat();
    let division = sharding.map_or_else(Bytes::new, |sharding| packed(sharding).into());
    let mut args = vec![Bytes::copy_from_slice(source.name().as_str().as_bytes()), division];
    for letter in letters {
        let id = id_of(source, &letter.key)?;
        let origin = Origin { queue: source.name().clone(), id, claim_count: letter.claim_count };
        let poster = record::poster(&letter.record)?;
        let lot = sharding.map(|sharding| sharding.draw(&Tenant::of_poster(poster)));
        args.push(text(letter.number));
        args.push(Bytes::copy_from_slice(&nonce_bytes(Nonce::random())));
        args.push(letter.hold.clone());
        args.push(record::letter(&letter.record, &origin)?);
        args.push(lot.map_or_else(Bytes::new, |lot| shards::digits_of(&lot.shards).into()));
    }
    Ok(args)
}

fn read_sharding(reply: &mut Reply) -> Result<Option<Sharding>, Error> {
    let [shards, per_tenant] = [reply.number()?, reply.number()?].map(|number| u16::try_from(number).unwrap_or(0));
    Ok(Sharding::new(shards, per_tenant))
}

fn read_letter(letter: &Bytes) -> Result<Letter, Error> {
    let corrupt = || Error::Corrupt("a dead letter is too short".to_owned());
    if letter.len() < FIXED_BYTES {
        return Err(corrupt());
    }
    let record = FIXED_BYTES + usize::from(letter[FIXED_BYTES - 1]);
    let target = str::from_utf8(letter.get(FIXED_BYTES..record).ok_or_else(corrupt)?);
    Ok(Letter {
        number: u64::from_be_bytes(letter[..8].try_into().expect("eight bytes")),
        hold: letter.slice(8..24),
        claim_count: u32::from_be_bytes(letter[8..12].try_into().expect("four bytes")),
        key: letter.slice(24..36),
        target: target.ok().and_then(|name| name.parse().ok()).ok_or_else(corrupt)?,
        record: letter.slice(record..),
    })
}
