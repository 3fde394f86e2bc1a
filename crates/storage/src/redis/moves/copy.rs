//! Copies the contents of a paused queue to another store, in chunks of limited size.

use std::time::Duration;

use bytes::Bytes;
use fred::types::Value;
use tokio::time::Instant;

use super::{Contents, Frozen, was_undone};
use crate::entry::Entry;
use crate::redis::RedisStore;
use crate::redis::arguments;
use crate::redis::keys::{KeyName, MOVED, QueueKeys};
use crate::redis::message_records::fitting_count;
use crate::redis::reply::{Reply, unknown_kind};
use crate::redis::script::MOVE_WRITE;
use crate::{Epoch, Error};
use sukkal_domain::QueueId;

/// Time between two renewals of the lease in the store that the queue leaves.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Number of members of a sorted set in one chunk.
const MEMBERS_PER_STEP: u64 = 2_000;
/// Approximate number of small values of a hash in one chunk.
const FIELDS_PER_STEP: &str = "64";
/// The same for values that may have the size of a message.
const LARGE_FIELDS_PER_STEP: &str = "4";
/// Number of values of a list in one chunk. Each may have the size of a message.
const VALUES_PER_STEP: u64 = 4;

impl RedisStore {
    /// Copies a queue that is paused in this store to another one, where the copy has begun.
    /// Verifies the numbers of copied values.
    pub(crate) async fn copy_frozen(
        &self,
        queue: &QueueId,
        label: Epoch,
        frozen: &Frozen,
        target: &Self,
    ) -> Result<(), Error> {
        let keys = QueueKeys::of(queue);
        let mut copy = Copy { source: self, target, queue, keys, label, renewed: Instant::now() };
        for contents in &frozen.0 {
            copy.key(contents).await?;
        }
        let contents = self.renew_move(queue, label).await?;
        target.complete_copy(queue, label, &contents).await
    }
}

struct Copy<'a> {
    source: &'a RedisStore,
    target: &'a RedisStore,
    queue: &'a QueueId,
    keys: QueueKeys,
    label: Epoch,
    /// When the lease was renewed last.
    renewed: Instant,
}

impl Copy<'_> {
    async fn key(&mut self, contents: &Contents) -> Result<(), Error> {
        let at = usize::try_from(contents.number).ok().and_then(|number| MOVED.get(number.checked_sub(1)?));
        let Some(&name) = at else { return Err(unknown_kind("move_freeze", &contents.number.to_string())) };
        match (name, contents.size_command.as_str()) {
            // They are copied together with their entries, which have their sizes.
            (KeyName::Messages, _) => Ok(()),
            (_, "HLEN") => self.hash(name).await,
            (_, "ZCARD") => self.sorted(name, contents.size).await,
            (_, "LLEN") => self.list(name, contents.size).await,
            (_, kind) => Err(unknown_kind("move_freeze", kind)),
        }
    }

    async fn hash(&mut self, name: KeyName) -> Result<(), Error> {
        let count = if name == KeyName::Retries { LARGE_FIELDS_PER_STEP } else { FIELDS_PER_STEP };
        let mut cursor = "0".to_owned();
        loop {
            let args = [cursor.as_str(), "COUNT", count].map(Value::from);
            let mut reply = self.read("HSCAN", name, args).await?;
            cursor = reply.text()?;
            self.write(name, "HSET", 0, reply.list()?.read_all(Reply::bytes)?).await?;
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn sorted(&mut self, name: KeyName, size: u64) -> Result<(), Error> {
        let has_entries = matches!(name, KeyName::Ready | KeyName::InFlight | KeyName::Delayed);
        let mut first = 0;
        while first < size {
            let range = [first.to_string(), (first + MEMBERS_PER_STEP - 1).to_string(), "WITHSCORES".to_owned()];
            let read = self.read("ZRANGE", name, range.map(Value::from)).await?.read_all(Reply::bytes)?;
            let mut pairs = Vec::with_capacity(read.len());
            for pair in read.chunks_exact(2) {
                pairs.extend([pair[1].clone(), pair[0].clone()]);
            }
            if has_entries {
                let entries: Result<Vec<Entry>, Error> =
                    read.iter().step_by(2).map(|entry| Entry::decode(entry)).collect();
                self.records(&entries?).await?;
            }
            self.write(name, "ZADD", 0, pairs).await?;
            first += MEMBERS_PER_STEP;
        }
        Ok(())
    }

    /// Copies the records of the messages with these entries.
    async fn records(&mut self, mut rest: &[Entry]) -> Result<(), Error> {
        while !rest.is_empty() {
            let (next, after) = rest.split_at(fitting_count(rest));
            let keys: Vec<Bytes> = next.iter().map(|entry| Bytes::copy_from_slice(&entry.key)).collect();
            let mut records = self.read("HMGET", KeyName::Messages, keys.iter().cloned().map(Value::Bytes)).await?;
            let mut pairs = Vec::with_capacity(2 * keys.len());
            for key in keys {
                pairs.extend(records.bytes_or_nil().into_iter().flat_map(|record| [key.clone(), record]));
            }
            self.write(KeyName::Messages, "HSET", 0, pairs).await?;
            rest = after;
        }
        Ok(())
    }

    async fn list(&mut self, name: KeyName, size: u64) -> Result<(), Error> {
        let mut first = 0;
        while first < size {
            let range = [first, first + VALUES_PER_STEP - 1].map(|at| Value::from(at.to_string()));
            let values = self.read("LRANGE", name, range).await?.read_all(Reply::bytes)?;
            self.write(name, "RPUSH", first, values).await?;
            first += VALUES_PER_STEP;
        }
        Ok(())
    }

    /// Reads from a key of the paused queue, and renews the lease from time to time.
    async fn read(
        &mut self,
        command: &'static str,
        name: KeyName,
        args: impl IntoIterator<Item = Value>,
    ) -> Result<Reply, Error> {
        if self.renewed.elapsed() >= RENEWAL_INTERVAL {
            self.source.renew_move(self.queue, self.label).await?;
            self.renewed = Instant::now();
        }
        self.source.connection.command_with(command, &self.keys.moving(name), args).await
    }

    /// Adds values to a key of the copy. `before` is the number of those that a list has already.
    async fn write(&self, name: KeyName, command: &'static str, before: u64, values: Vec<Bytes>) -> Result<(), Error> {
        if values.is_empty() {
            return Ok(());
        }
        let keys = vec![self.keys.key(KeyName::Moving), self.keys.moving(name)];
        let head = [arguments::number(self.label.0), Bytes::from_static(command.as_bytes()), arguments::number(before)];
        let args = head.into_iter().chain(values).collect();
        match self.target.connection.run_on(&MOVE_WRITE, keys, args).await?.text()?.as_str() {
            "written" => Ok(()),
            "lost" => Err(was_undone(self.queue)),
            kind => Err(unknown_kind(MOVE_WRITE.name, kind)),
        }
    }
}
