//! Verifies the integrity of the store, a limited number of messages per script, so that other
//! operations are hardly delayed.

use bytes::Bytes;
use futures::future::try_join_all;
use uuid::Uuid;

use super::walk::UnreachableServers;
use crate::key::id_of;
use crate::maintenance::check_lists;
use crate::redis::RedisStore;
use crate::redis::arguments;
use crate::redis::keys::QueueKeys;
use crate::redis::reply::{self, Reply};
use crate::redis::script::{QUEUE_CHECK, QUEUE_CHECK_BYTES, QUEUE_CHECK_CLAIMS, QUEUE_CHECK_SUBSCRIPTIONS, Script};
use crate::{Check, Error, QueueStore, unless_unreadable};
use sukkal_domain::QueueId;

const NOT_REGISTERED: &str = "exists and is not registered: it is not listed";
/// Number of messages or claims that one script checks.
const CHECKED_PER_STEP: u64 = 100;
/// Maximum number of messages of a queue whose bytes are checked. One script reads all their
/// entries, because the sum changes with each message.
const BYTES_CHECKED_MAX: u64 = 10_000;
const SETS: [&str; 3] = ["ready", "delayed", "in_flight"];
/// Number of retries that one script checks. Their records have whole messages.
const RETRIES_CHECKED_PER_STEP: u64 = 10;
const CLAIM_PARTS: [&str; 5] = ["leases", "claims", "claim_ids", "shards", "tasks"];
const SUBSCRIPTION_PARTS: [&str; 7] =
    ["subscriptions", "subscribers", "subscription_ids", "subscription_ends", "deliveries", "retries", "retry_times"];

impl RedisStore {
    /// Checks all queues, and repairs what can be repaired if `repairs` is set.
    pub(super) async fn check_all(&self, repairs: bool) -> Result<Check, Error> {
        let mut check = Check::default();
        // Comes first, so that the loop below finds the queues that it registers.
        let unregistered = self.check_registrations(repairs, &mut check).await?;
        for queue in &unregistered {
            self.check_readable(queue, repairs, &mut check).await?;
        }
        let mut unreachable = UnreachableServers::new();
        let mut queues = self.queues_after(None, &mut unreachable).await?;
        while let Some(last) = queues.last() {
            for queue in &queues {
                self.check_readable(queue, repairs, &mut check).await?;
                self.check_bytes(queue, repairs, &mut check).await?;
            }
            queues = self.queues_after(Some(last), &mut unreachable).await?;
        }
        if !unreachable.is_empty() {
            return Err(Error::Unavailable("a server of the cluster does not answer".to_owned()));
        }
        self.check_tables(&mut check).await?;
        check_lists(self, &mut check).await?;
        Ok(check)
    }

    async fn check_readable(&self, queue: &QueueId, repairs: bool, check: &mut Check) -> Result<(), Error> {
        // First, so that what is set aside is not found in the second step.
        let records = self.check_records(queue, repairs, check).await;
        for outcome in [records, self.check_queue(queue, check).await] {
            match outcome {
                Err(Error::Corrupt(reason)) => check.add_finding(queue, reason),
                outcome => outcome?,
            }
        }
        Ok(())
    }

    /// Finds queues that exist and are not registered, and registers them if `repairs` is set.
    /// Returns those that are still not registered.
    async fn check_registrations(&self, repairs: bool, check: &mut Check) -> Result<Vec<QueueId>, Error> {
        let mut unregistered = Vec::new();
        let mut scan = self.begin_scan();
        while let Some(queues) = self.scan_step(&mut scan).await? {
            let versions = try_join_all(queues.iter().map(|queue| self.registered_version(queue))).await?;
            let without_version = queues.into_iter().zip(versions).filter(|(_, version)| version.is_none());
            for (queue, _) in without_version {
                if repairs && self.confirm_registration(&queue).await? {
                    check.add_repair(&queue, NOT_REGISTERED);
                } else if !self.is_registered_or_absent(&queue).await? {
                    check.add_finding(&queue, NOT_REGISTERED);
                    unregistered.push(queue);
                }
            }
        }
        Ok(unregistered)
    }

    /// Returns whether an apparently unregistered queue is being created or deleted at this moment.
    /// A queue is registered before it exists, and does not exist any more when its registration is
    /// removed.
    async fn is_registered_or_absent(&self, queue: &QueueId) -> Result<bool, Error> {
        Ok(unless_unreadable(self.get_queue(queue).await)? == Some(None)
            || self.registered_version(queue).await?.is_some())
    }

    /// Checks one queue.
    pub(super) async fn check_queue(&self, queue: &QueueId, check: &mut Check) -> Result<(), Error> {
        for set in SETS {
            self.check_messages(queue, set, check).await?;
        }
        for part in CLAIM_PARTS {
            let noun = if part == "tasks" { "task" } else { "claim" };
            self.check_part(&QUEUE_CHECK_CLAIMS, queue, (part, noun), check).await?;
        }
        for part in SUBSCRIPTION_PARTS {
            self.check_part(&QUEUE_CHECK_SUBSCRIPTIONS, queue, (part, "subscription"), check).await?;
        }
        Ok(())
    }

    /// Checks the messages of a set.
    async fn check_messages(&self, queue: &QueueId, set: &'static str, check: &mut Check) -> Result<(), Error> {
        let mut from = Some(arguments::number(0));
        let mut is_first = set == SETS[0];
        while let Some(rank) = from {
            let args = [Bytes::from_static(set.as_bytes()), rank, arguments::number(CHECKED_PER_STEP)];
            let (kind, mut reply) = self.run_check(&QUEUE_CHECK, queue, &args).await?;
            match kind.as_str() {
                "checked" => {}
                // The queue was deleted in the meantime, or its name is registered and it does not
                // exist yet.
                "absent" => return Ok(()),
                kind => return Err(reply::unknown_kind(QUEUE_CHECK.name, kind)),
            }
            let (records, entries) = (reply.number()?, reply.number()?);
            let last = reply.bytes()?;
            check.messages += reply.number()?;
            while !reply.is_empty() {
                let (key, finding) = (reply.bytes()?, reply.text()?);
                add_message_finding(queue, &key, &finding, check);
            }
            if is_first {
                is_first = false;
                check.queues += 1;
                if records != entries {
                    check.add_finding(queue, format_args!("{records} messages are stored, {entries} are in the feed"));
                }
            }
            from = Some(last).filter(|last| !last.is_empty());
        }
        Ok(())
    }

    /// Checks the sum of the sizes of the messages. A sum that is not known is not damage:
    /// processes of an earlier release do not store it.
    async fn check_bytes(&self, queue: &QueueId, repairs: bool, check: &mut Check) -> Result<(), Error> {
        let repair = if repairs { "repair" } else { "" };
        let args = [arguments::number(BYTES_CHECKED_MAX), Bytes::from_static(repair.as_bytes())];
        let (kind, mut reply) = match self.run_check(&QUEUE_CHECK_BYTES, queue, &args).await {
            // The checks of the messages report this.
            Err(Error::Corrupt(_)) => return Ok(()),
            outcome => outcome?,
        };
        if kind != "checked" {
            return Ok(());
        }
        let (sum, stored) = (reply.text()?, reply.text()?);
        if stored != sum {
            let known =
                if stored.is_empty() { "their number was not known" } else { &format!("{stored} were counted") };
            let finding = format_args!("its messages have {sum} bytes, and {known}");
            match repairs {
                true => check.add_repair(queue, finding),
                false if stored.is_empty() => {}
                false => check.add_finding(queue, finding),
            }
        }
        Ok(())
    }

    /// Checks one of the keys of claims, tasks, shards, or subscriptions and their deliveries. A
    /// finding with an id is about what `noun` says.
    async fn check_part(
        &self,
        script: &Script,
        queue: &QueueId,
        (part, noun): (&'static str, &str),
        check: &mut Check,
    ) -> Result<(), Error> {
        let limit = if part == "retries" { RETRIES_CHECKED_PER_STEP } else { CHECKED_PER_STEP };
        let mut from = Some(arguments::number(0));
        while let Some(place) = from {
            let args = [Bytes::from_static(part.as_bytes()), place, arguments::number(limit)];
            let (kind, mut reply) = self.run_check(script, queue, &args).await?;
            if kind != "checked" {
                return Err(reply::unknown_kind(script.name, &kind));
            }
            from = Some(reply.bytes()?).filter(|next| !next.is_empty());
            while !reply.is_empty() {
                let (name, finding) = (reply.bytes()?, reply.text()?);
                match <[u8; 16]>::try_from(&*name) {
                    Ok(id) => check.add_finding(queue, format_args!("{noun} {} {finding}", Uuid::from_bytes(id))),
                    Err(_) if noun == "subscription" => check.add_finding(queue, finding),
                    Err(_) => add_message_finding(queue, &name, &finding, check),
                }
            }
        }
        Ok(())
    }

    /// Runs a script on a queue. Returns the kind of the reply, and the rest of it.
    async fn run_check(&self, script: &Script, queue: &QueueId, args: &[Bytes]) -> Result<(String, Reply), Error> {
        let mut reply = self.connection.run(script, &QueueKeys::of(queue), args).await?;
        Ok((reply.text()?, reply))
    }
}

fn add_message_finding(queue: &QueueId, key: &[u8], finding: &str, check: &mut Check) {
    match id_of(queue, key) {
        Ok(id) => check.add_finding(queue, format_args!("message {id} {finding}")),
        Err(error) => check.add_finding(queue, error),
    }
}
