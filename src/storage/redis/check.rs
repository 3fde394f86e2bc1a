//! Looks whether the store is what it should be, a few messages at a time, so that others hardly notice.

use std::collections::HashMap;

use bytes::Bytes;

use super::RedisStore;
use super::keys::QueueKeys;
use super::messages::text;
use super::reply::{self, Reply};
use super::script::{QUEUE_CHECK, QUEUE_CHECK_CLAIMS, QUEUE_CHECK_ENDS, Script};
use crate::domain::{ClaimId, QueueId};
use crate::storage::key::{KEY_BYTES, id_of};
use crate::storage::{Check, Error};

/// How many messages, chunks of ends, claims or holds one script looks at.
const LOOKED_AT_PER_STEP: u64 = 100;
const SETS: [&str; 3] = ["ready", "delayed", "held"];
const CLAIM_PARTS: [&str; 4] = ["leases", "claims", "holds", "shards"];
/// Ends are noted in other scripts than those in which messages are seen: what seems to be missing may have moved in
/// between, so often at most.
const LOOKS_FOR_ENDS: usize = 3;

/// The messages that were seen, and the second in which each ends.
type Ends = HashMap<Bytes, u64>;

impl RedisStore {
    /// Looks at one queue.
    pub(super) async fn check_queue(&self, queue: &QueueId, check: &mut Check) -> Result<(), Error> {
        let mut unseen = self.check_messages(queue, check).await?;
        for _ in 0..LOOKS_FOR_ENDS {
            self.strike_out(queue, &mut unseen).await?;
            if unseen.is_empty() {
                break;
            }
            let mut now = self.check_messages(queue, &mut Check::default()).await?;
            now.retain(|key, _| unseen.contains_key(key));
            unseen = now;
        }
        for (key, second) in unseen {
            match id_of(queue, &key) {
                Ok(id) => check.find(queue, format_args!("message {id} should end in second {second} and does not")),
                Err(error) => check.find(queue, error),
            }
        }
        for part in CLAIM_PARTS {
            self.check_claims(queue, part, check).await?;
        }
        Ok(())
    }

    /// Looks at the messages, set by set.
    async fn check_messages(&self, queue: &QueueId, check: &mut Check) -> Result<Ends, Error> {
        let (mut ends, mut is_counted) = (Ends::new(), false);
        for set in SETS {
            let mut from = Some(text(0));
            while let Some(rank) = from {
                let args = vec![Bytes::from_static(set.as_bytes()), rank, text(LOOKED_AT_PER_STEP)];
                let (kind, mut reply) = self.look(&QUEUE_CHECK, queue, args).await?;
                match kind.as_str() {
                    "looked" => {}
                    // It was deleted in the meantime, or its name is registered before it is there.
                    "absent" => return Ok(Ends::new()),
                    kind => return Err(reply::unknown(QUEUE_CHECK.name, kind)),
                }
                let (records, placed) = (reply.number()?, reply.number()?);
                let last = reply.bytes()?;
                let looked_at = reply.number()?;
                check.messages += looked_at;
                for _ in 0..looked_at {
                    let (key, second) = (reply.bytes()?, reply.number()?);
                    if second > 0 {
                        ends.insert(key, second);
                    }
                }
                while !reply.is_empty() {
                    let (key, what) = (reply.bytes()?, reply.text()?);
                    find_of_message(queue, &key, &what, check);
                }
                if !is_counted {
                    is_counted = true;
                    check.queues += 1;
                    if records != placed {
                        check.find(queue, format_args!("{records} messages are stored, {placed} are in the feed"));
                    }
                }
                from = Some(last).filter(|last| !last.is_empty());
            }
        }
        Ok(ends)
    }

    /// Strikes out all messages that are noted to end when they should.
    async fn strike_out(&self, queue: &QueueId, ends: &mut Ends) -> Result<(), Error> {
        let mut passed = 0;
        loop {
            let args = vec![text(passed), text(LOOKED_AT_PER_STEP)];
            let (kind, mut reply) = self.look(&QUEUE_CHECK_ENDS, queue, args).await?;
            if kind != "ends" {
                return Err(reply::unknown(QUEUE_CHECK_ENDS.name, &kind));
            }
            if reply.is_empty() {
                return Ok(());
            }
            while !reply.is_empty() {
                let (second, keys) = (reply.number()?, reply.bytes()?);
                for key in keys.chunks(KEY_BYTES) {
                    if ends.get(key) == Some(&second) {
                        ends.remove(key);
                    }
                }
            }
            passed += LOOKED_AT_PER_STEP;
        }
    }

    /// Looks at the leases, the claims, the holds or the shards.
    async fn check_claims(&self, queue: &QueueId, part: &'static str, check: &mut Check) -> Result<(), Error> {
        let mut from = Some(text(0));
        while let Some(place) = from {
            let args = vec![Bytes::from_static(part.as_bytes()), place, text(LOOKED_AT_PER_STEP)];
            let (kind, mut reply) = self.look(&QUEUE_CHECK_CLAIMS, queue, args).await?;
            if kind != "looked" {
                return Err(reply::unknown(QUEUE_CHECK_CLAIMS.name, &kind));
            }
            from = Some(reply.bytes()?).filter(|next| !next.is_empty());
            while !reply.is_empty() {
                let (name, what) = (reply.bytes()?, reply.text()?);
                match <[u8; 16]>::try_from(&*name) {
                    Ok(claim) => check.find(queue, format_args!("claim {} {what}", ClaimId::from_bytes(claim))),
                    Err(_) => find_of_message(queue, &name, &what, check),
                }
            }
        }
        Ok(())
    }

    /// Runs a script on a queue; what kind of answer it has, and the rest of it.
    async fn look(&self, script: &Script, queue: &QueueId, args: Vec<Bytes>) -> Result<(String, Reply), Error> {
        let mut reply = self.connection.run(script, QueueKeys::of(queue).all(), args).await?;
        Ok((reply.text()?, reply))
    }
}

fn find_of_message(queue: &QueueId, key: &[u8], what: &str, check: &mut Check) {
    match id_of(queue, key) {
        Ok(id) => check.find(queue, format_args!("message {id} {what}")),
        Err(error) => check.find(queue, error),
    }
}
