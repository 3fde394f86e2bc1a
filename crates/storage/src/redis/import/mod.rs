//! Stores everything that a migration copies, with plain commands: see `storage/migration`.
//!
//! The mark of an incomplete target is the version of its layout, which no release can read
//! (`connection/layout.rs`). So all processes refuse the store, and the import is alone with it.
//! Each command can be repeated.
//!
//! Redis may lose its data meanwhile, and the mark with it. Another process can then use the store,
//! so a write must not happen. One script therefore verifies the mark and writes. In a cluster, the
//! mark is in another slot, so it is verified after each chunk. The id of the migration is a second
//! mark, which is never written again. So a run that has lost data fails.

mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use fred::types::Value;
use futures::future::try_join_all;
use tokio::time::{Instant, sleep};
use uuid::Uuid;

use self::values::{Values, ValuesOfKey};
use super::connection::{layout_of, migrating_layout};
use super::keys::{self, QueueKeys};
use super::reply::Reply;
use super::script::MIGRATION_WRITE;
use super::{RedisStore, RedisUri, TlsError};
use crate::migration::{Chunk, MigrationTarget};
use crate::watch::Watchers;
use crate::{Check, Error, Maintenance};

/// Maximum time for which a command is repeated while Redis does not answer, for example because of
/// a failover.
const OUTAGE_MAX: Duration = Duration::from_secs(30);
const PAUSE_IN_OUTAGE: Duration = Duration::from_millis(200);
/// Approximate number of keys that one `SCAN` visits.
const KEYS_PER_SCAN: &str = "500";
/// Maximum number of arguments of a command that a script passes on.
const ARGS_MAX: usize = 2_000;
/// Keys that the migration keeps.
const KEPT: [&str; 2] = [keys::LAYOUT, keys::MIGRATION];

/// A store in Redis that a migration copies everything into.
pub struct RedisImport {
    store: RedisStore,
    id: Uuid,
    /// Number of values of each key of the queue that is being compared.
    compared: BTreeMap<String, (&'static str, u64)>,
}

impl RedisImport {
    /// Opens the target of the migration with this id. If it is empty, it is marked as soon as it
    /// answers.
    pub fn open(uri: &RedisUri, id: Uuid) -> Result<Self, TlsError> {
        let store = RedisStore::with_layout(uri, Watchers::default(), &migrating_layout(id))?;
        Ok(Self { store, id, compared: BTreeMap::new() })
    }

    /// Completes with the reason if the target turns out to be in use, or to be that of another
    /// migration.
    pub fn becomes_unusable(&self) -> impl Future<Output = String> + use<> {
        let connection = self.store.connection.clone();
        async move { connection.unsupported_layout().await }
    }

    /// Removes all keys but those that the migration keeps. An earlier run has written them.
    async fn remove_keys(&self) -> Result<(), Error> {
        let connection = &self.store.connection;
        for slots in connection.servers.slots_by_server() {
            let mut cursor = "0".to_owned();
            loop {
                let args = [&cursor, "MATCH", keys::ANY, "COUNT", KEYS_PER_SCAN];
                let mut reply = patiently(|| connection.command_on(slots[0], "SCAN", &args)).await?;
                cursor = reply.text()?;
                let mut found = BTreeSet::from_iter(reply.list()?.read_all(Reply::text)?);
                found.retain(|key| !KEPT.contains(&key.as_str()));
                try_join_all(found.iter().map(|key| self.run("UNLINK", key, Vec::new()))).await?;
                if cursor == "0" {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn run(&self, name: &'static str, key: &str, args: Vec<Value>) -> Result<Reply, Error> {
        patiently(|| self.store.connection.command_with(name, key, args.clone())).await
    }

    /// Runs a command that writes, if the store has both marks.
    async fn write(&self, name: &'static str, key: &str, args: Vec<Bytes>) -> Result<(), Error> {
        let connection = &self.store.connection;
        if connection.servers.are_clustered() {
            return self.run(name, key, args.into_iter().map(Value::Bytes).collect()).await.map(drop);
        }
        let keys = [key, keys::LAYOUT, keys::MIGRATION].map(str::to_owned).to_vec();
        let marks = [migrating_layout(self.id), self.id.to_string(), name.to_owned()].map(Bytes::from);
        let args: Vec<Bytes> = marks.into_iter().chain(args).collect();
        let mut reply = patiently(|| connection.run_on(&MIGRATION_WRITE, keys.clone(), args.clone())).await?;
        if reply.text()? == "done" { Ok(()) } else { Err(lost()) }
    }

    /// Succeeds if the store has both marks.
    async fn require_marks(&self) -> Result<(), Error> {
        let has_marks = self.layout().await? == Some(migrating_layout(self.id)) && self.has_id().await?;
        if has_marks { Ok(()) } else { Err(lost()) }
    }

    /// Returns the layout of the store when the migration is complete.
    fn completed_layout(&self) -> String {
        layout_of(self.store.connection.clock)
    }

    async fn layout(&self) -> Result<Option<String>, Error> {
        patiently(|| self.store.connection.command_unchecked("GET", keys::LAYOUT, [])).await?.text_or_nil()
    }

    /// Returns whether the store has the id of this migration.
    async fn has_id(&self) -> Result<bool, Error> {
        let id = patiently(|| self.store.connection.command_unchecked("GET", keys::MIGRATION, [])).await?;
        Ok({ id }.text_or_nil()? == Some(self.id.to_string()))
    }

    async fn add(&self, key: &str, values: ValuesOfKey, kept_s: Option<u64>) -> Result<(), Error> {
        let (name, condition, pairs): (_, _, Vec<[Bytes; 2]>) = match values {
            ValuesOfKey::Hash(fields) => ("HSET", None, fields.into_iter().map(<[Bytes; 2]>::from).collect()),
            ValuesOfKey::Sorted(members) => ("ZADD", None, members.into_iter().map(scored).collect()),
            ValuesOfKey::Lowest(members) => ("ZADD", Some("LT"), members.into_iter().map(scored).collect()),
        };
        for pairs in pairs.chunks(ARGS_MAX / 2) {
            let condition = condition.iter().map(|word: &&'static str| Bytes::from_static(word.as_bytes()));
            self.write(name, key, condition.chain(pairs.iter().flatten().cloned()).collect()).await?;
        }
        if let Some(kept_s) = kept_s {
            self.run("EXPIRE", key, vec![Value::from(kept_s.to_string())]).await?;
        }
        Ok(())
    }

    /// Returns whether a key has these values.
    async fn has(&self, key: &str, values: ValuesOfKey) -> Result<bool, Error> {
        match values {
            ValuesOfKey::Hash(fields) => {
                let names = fields.iter().map(|(field, _)| Value::Bytes(field.clone())).collect();
                let mut stored = self.run("HMGET", key, names).await?;
                Ok(fields.iter().all(|(_, value)| stored.bytes_or_nil().as_ref() == Some(value)))
            }
            ValuesOfKey::Sorted(members) => {
                let names = members.iter().map(|(member, _)| Value::Bytes(member.clone())).collect();
                let mut stored = self.run("ZMSCORE", key, names).await?;
                Ok(members.iter().all(|(_, score)| {
                    let stored = stored.bytes_or_nil();
                    stored.is_some_and(|stored| parse_score(&stored) == parse_score(score.to_string().as_bytes()))
                }))
            }
            // Chunks share these members. The check of the store verifies them.
            ValuesOfKey::Lowest(_) => Ok(true),
        }
    }
}

#[async_trait]
impl MigrationTarget for RedisImport {
    async fn is_complete(&self) -> Result<bool, Error> {
        Ok(self.layout().await?.is_some_and(|layout| layout == self.completed_layout()) && self.has_id().await?)
    }

    async fn begin(&mut self) -> Result<(), Error> {
        // The first command succeeds only if the store has the mark of this migration.
        self.write("SET", keys::MIGRATION, vec![self.id.to_string().into()]).await?;
        self.remove_keys().await
    }

    async fn store(&mut self, chunk: Chunk) -> Result<(), Error> {
        let completed = chunk.queue.clone().filter(|_| chunk.is_last);
        let mut values = self.values(chunk)?;
        let kept_s = std::mem::take(&mut values.kept_s);
        let this = &*self;
        let added = values.by_key.into_iter().map(|(key, values)| {
            let kept_s = kept_s.get(&key).copied();
            async move { this.add(&key, values, kept_s).await }
        });
        try_join_all(added).await?;
        self.require_marks().await?;
        if let Some(queue) = completed {
            patiently(|| self.store.confirm_registration(&queue)).await?;
        }
        Ok(())
    }

    async fn compare(&mut self, chunk: Chunk) -> Result<Option<String>, Error> {
        let is_last = chunk.is_last;
        for (key, values) in self.values(chunk)?.by_key {
            let (command, count) = match &values {
                ValuesOfKey::Hash(fields) => ("HLEN", fields.len()),
                ValuesOfKey::Sorted(members) => ("ZCARD", members.len()),
                ValuesOfKey::Lowest(_) => continue,
            };
            if !self.has(&key, values).await? {
                return Ok(Some(key));
            }
            self.compared.entry(key).or_insert((command, 0)).1 += count as u64;
        }
        if is_last {
            for (key, (command, count)) in std::mem::take(&mut self.compared) {
                if self.run(command, &key, Vec::new()).await?.number()? != count {
                    return Ok(Some(key));
                }
            }
        }
        Ok(None)
    }

    async fn verify(&self) -> Result<Check, Error> {
        self.store.check().await
    }

    async fn complete(&mut self) -> Result<(), Error> {
        self.require_marks().await?;
        match self.write("SET", keys::LAYOUT, vec![self.completed_layout().into()]).await {
            // The command was repeated, because its reply was lost.
            Err(_) if self.is_complete().await? => Ok(()),
            completed => completed,
        }
    }
}

impl RedisImport {
    fn values(&self, chunk: Chunk) -> Result<Values, Error> {
        let connection = &self.store.connection;
        let slot = chunk.queue.as_ref().map_or(0, |queue| connection.servers.slot(QueueKeys::of(queue).prefix()));
        Values::of(chunk, slot)
    }
}

/// Repeats a command while Redis does not answer, up to a maximum time.
async fn patiently<T, F>(command: impl Fn() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let began = Instant::now();
    loop {
        match command().await {
            Err(Error::Unavailable(_)) if began.elapsed() < OUTAGE_MAX => sleep(PAUSE_IN_OUTAGE).await,
            result => return result,
        }
    }
}

fn lost() -> Error {
    Error::Unavailable("Redis has lost data during the migration".to_owned())
}

/// Returns the arguments of `ZADD` for a member.
fn scored((member, score): (Bytes, u64)) -> [Bytes; 2] {
    [score.to_string().into(), member]
}

fn parse_score(text: &[u8]) -> Option<f64> {
    str::from_utf8(text).ok()?.parse().ok()
}
