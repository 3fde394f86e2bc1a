//! Verifies the integrity of the store, some messages in a script, so that others hardly notice.

use bytes::Bytes;
use futures::future::try_join_all;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::messages::text;
use super::reply::{self, Reply};
use super::script::{QUEUE_CHECK, QUEUE_CHECK_CLAIMS, Script};
use super::upkeep::Away;
use crate::domain::{ClaimId, QueueId};
use crate::storage::key::id_of;
use crate::storage::{Check, Error, QueueStore};

/// About how many keys are passed over at a time in the search for queues.
const KEYS_PER_SCAN: u32 = 1_000;
const NOT_REGISTERED: &str = "exists and is not registered: it is not listed, and the janitor does not find it";
/// Number of messages or claims that one script checks.
const CHECKED_PER_STEP: u64 = 100;
const SETS: [&str; 3] = ["ready", "delayed", "in_flight"];
const CLAIM_PARTS: [&str; 3] = ["leases", "claims", "shards"];

impl RedisStore {
    /// Looks at all queues, and mends what can be mended if that is wanted.
    pub(super) async fn check_all(&self, repairs: bool) -> Result<Check, Error> {
        let mut check = Check::default();
        // First, so that the queues are found below.
        let unregistered = self.check_registrations(repairs, &mut check).await?;
        for queue in &unregistered {
            self.check_readable(queue, &mut check).await?;
        }
        let mut away = Away::new();
        let mut queues = self.queues_after(None, &mut away).await?;
        while let Some(last) = queues.last() {
            for queue in &queues {
                self.check_readable(queue, &mut check).await?;
            }
            queues = self.queues_after(Some(last), &mut away).await?;
        }
        if !away.is_empty() {
            return Err(Error::Unavailable("a server of the cluster does not answer".to_owned()));
        }
        Ok(check)
    }

    async fn check_readable(&self, queue: &QueueId, check: &mut Check) -> Result<(), Error> {
        match self.check_queue(queue, check).await {
            Err(Error::Corrupt(reason)) => check.find(queue, reason),
            outcome => outcome?,
        }
        Ok(())
    }

    /// Finds queues that exist and are not registered. Returns those that still are not.
    async fn check_registrations(&self, repairs: bool, check: &mut Check) -> Result<Vec<QueueId>, Error> {
        let mut unregistered = Vec::new();
        for slots in self.connection.slots_by_server() {
            let mut cursor = "0".to_owned();
            loop {
                let count = KEYS_PER_SCAN.to_string();
                let words = [&cursor, "MATCH", keys::ANY_QUEUE, "COUNT", &count];
                let mut reply = self.connection.command_on(slots[0], "SCAN", &words).await?;
                cursor = reply.text()?;
                let mut found = reply.list()?;
                let mut queues = Vec::new();
                while !found.is_empty() {
                    queues.extend(keys::queue_of_key(&found.text()?));
                }
                let versions = try_join_all(queues.iter().map(|queue| self.registered_version(queue))).await?;
                let lost = queues.into_iter().zip(versions).filter(|(_, version)| version.is_none());
                for (queue, _) in lost {
                    if repairs && self.confirm_registration(&queue).await? {
                        check.mend(&queue, NOT_REGISTERED);
                    } else if !self.is_registered_or_absent(&queue).await? {
                        check.find(&queue, NOT_REGISTERED);
                        unregistered.push(queue);
                    }
                }
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(unregistered)
    }

    /// What is missing may be created or deleted at this moment: a queue is registered before it exists, and exists no
    /// longer when its registration is removed.
    async fn is_registered_or_absent(&self, queue: &QueueId) -> Result<bool, Error> {
        Ok(self.get_queue(queue).await?.is_none() || self.registered_version(queue).await?.is_some())
    }

    /// Checks one queue.
    pub(super) async fn check_queue(&self, queue: &QueueId, check: &mut Check) -> Result<(), Error> {
        for set in SETS {
            self.check_messages(queue, set, check).await?;
        }
        for part in CLAIM_PARTS {
            self.check_claims(queue, part, check).await?;
        }
        Ok(())
    }

    /// Checks the messages of a set.
    async fn check_messages(&self, queue: &QueueId, set: &'static str, check: &mut Check) -> Result<(), Error> {
        let mut from = Some(text(0));
        let mut is_first = set == SETS[0];
        while let Some(rank) = from {
            let args = [Bytes::from_static(set.as_bytes()), rank, text(CHECKED_PER_STEP)];
            let (kind, mut reply) = self.run_check(&QUEUE_CHECK, queue, &args).await?;
            match kind.as_str() {
                "checked" => {}
                // It was deleted in the meantime, or its name is registered before it exists.
                "absent" => return Ok(()),
                kind => return Err(reply::unknown(QUEUE_CHECK.name, kind)),
            }
            let (records, placed) = (reply.number()?, reply.number()?);
            let last = reply.bytes()?;
            check.messages += reply.number()?;
            while !reply.is_empty() {
                let (key, what) = (reply.bytes()?, reply.text()?);
                find_of_message(queue, &key, &what, check);
            }
            if is_first {
                is_first = false;
                check.queues += 1;
                if records != placed {
                    check.find(queue, format_args!("{records} messages are stored, {placed} are in the feed"));
                }
            }
            from = Some(last).filter(|last| !last.is_empty());
        }
        Ok(())
    }

    /// Checks the leases, the claims or the shards.
    async fn check_claims(&self, queue: &QueueId, part: &'static str, check: &mut Check) -> Result<(), Error> {
        let mut from = Some(text(0));
        while let Some(place) = from {
            let args = [Bytes::from_static(part.as_bytes()), place, text(CHECKED_PER_STEP)];
            let (kind, mut reply) = self.run_check(&QUEUE_CHECK_CLAIMS, queue, &args).await?;
            if kind != "checked" {
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

    /// Runs a script on a queue. Returns the kind of its answer, and the rest.
    async fn run_check(&self, script: &Script, queue: &QueueId, args: &[Bytes]) -> Result<(String, Reply), Error> {
        let mut reply = self.connection.run(script, &QueueKeys::of(queue), args).await?;
        Ok((reply.text()?, reply))
    }
}

fn find_of_message(queue: &QueueId, key: &[u8], what: &str, check: &mut Check) {
    match id_of(queue, key) {
        Ok(id) => check.find(queue, format_args!("message {id} {what}")),
        Err(error) => check.find(queue, error),
    }
}
