//! The registers: one of all projects, and one of each project's queues. A register has names with
//! versions, in byte order. In a management store, the name of a queue may also have a pool: see
//! `catalogue.rs`.
//!
//! A project and its queues are in different slots, so the order of the steps matters. A project is
//! registered before the name of its first queue, so that a crash leaves no name that is never
//! found. It is registered again afterwards under a new version, because it may have been removed
//! in between. A project is removed only at the version that was read before it was found to be
//! empty.

use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use super::RedisStore;
use super::keys;
use super::reply;
use super::script::REGISTER;
use crate::{Epoch, Error, NameRange};
use sukkal_domain::{PoolName, ProjectId, QueueId, QueueName};

/// Separates a name from its version.
const SEPARATOR: char = '\0';
/// The byte that follows the separator in byte order.
const AFTER_SEPARATOR: char = '\u{1}';
/// A byte that follows those of names in byte order.
const AFTER_NAMES: char = '\u{7f}';
/// Minimum delay of a confirmation. The operation that used the queue goes first, and it may be
/// creating the queue.
const DELAY_MIN: Duration = Duration::from_secs(1);
/// Pause between two confirmations, which leaves the store to other operations.
const PAUSE_BETWEEN_QUEUES: Duration = Duration::from_millis(5);

/// A name with the version of its registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) name: String,
    pub(super) version: u64,
    /// The pool that has the queue of this name, if it is not this store.
    pub(super) pool: Option<PoolName>,
}

/// What `scripts/register.lua` does with a name that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Replaces the registration.
    Replace,
    /// Keeps the registration.
    IfAbsent,
    /// Replaces the registration by one of exactly this version, unless it has a higher one.
    Exactly,
}

impl Registration {
    /// Returns the registration of a queue of this store.
    fn of(queue: &QueueId, version: u64) -> Self {
        Self { name: queue.name().as_str().to_owned(), version, pool: None }
    }

    /// Returns the member of the register.
    pub(super) fn member(&self) -> String {
        format!("{}{SEPARATOR}{}", self.name, self.without_name())
    }

    /// Returns the member without the name and its separator.
    pub(super) fn without_name(&self) -> String {
        match &self.pool {
            Some(pool) => format!("{}{SEPARATOR}{pool}", self.version),
            None => self.version.to_string(),
        }
    }

    /// Reads a member of a register.
    fn read(register: &str, member: &str) -> Result<Self, Error> {
        let (name, rest) = member
            .split_once(SEPARATOR)
            .ok_or_else(|| Error::Corrupt(format!("{register} has the member {member:?} without a version")))?;
        let (version, pool) = match rest.split_once(SEPARATOR) {
            Some((version, pool)) => (version, read_pool(pool)?),
            None => (rest, None),
        };
        Ok(Self { name: name.to_owned(), version: reply::parse_number(version)?, pool })
    }
}

/// Reads the name of a pool; `None` if it is empty.
pub(super) fn read_pool(name: &str) -> Result<Option<PoolName>, Error> {
    let pool = (!name.is_empty()).then(|| name.parse()).transpose();
    pool.map_err(|_| Error::Corrupt(format!("{name:?} is not the name of a pool")))
}

impl RedisStore {
    /// Confirms waiting queues one after the other, until all senders are dropped.
    pub(super) async fn confirm_registrations(self, mut waiting: mpsc::Receiver<(QueueId, Instant)>) {
        while let Some((queue, since)) = waiting.recv().await {
            sleep(DELAY_MIN.saturating_sub(since.elapsed()).max(PAUSE_BETWEEN_QUEUES)).await;
            match self.confirm_registration(&queue).await {
                Ok(false) => debug!(%queue, "confirmed the registration of a queue"),
                Ok(true) => warn!(%queue, "a queue was not registered and has been registered again"),
                Err(error) => {
                    warn!(%queue, %error, "cannot confirm the registration of a queue; the next use of the queue tries again");
                    self.confirmer.forget(&queue);
                }
            }
        }
    }

    /// Registers a queue that is about to be created, unless it is registered. Returns the version
    /// of its registration.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueue`] if the queue is in a pool.
    pub(super) async fn register(&self, queue: &QueueId) -> Result<Epoch, Error> {
        let (registered, _is_new) = self.register_with_project(queue, Mode::IfAbsent, 0, None).await?;
        match registered.pool {
            None => Ok(Epoch(registered.version)),
            Some(_) => Err(Error::NoQueue),
        }
    }

    /// Registers a queue, and its project before and afterwards. Returns the registration that
    /// there is now, and whether this call has made it.
    pub(super) async fn register_with_project(
        &self,
        queue: &QueueId,
        mode: Mode,
        version: u64,
        pool: Option<&PoolName>,
    ) -> Result<(Registration, bool), Error> {
        let project = keys::encode_project(queue.project());
        self.register_in(keys::PROJECT_REGISTER, &project, Mode::Replace, 0, None).await?;
        let register = keys::queue_register(queue.project());
        let registered = self.register_in(&register, queue.name().as_str(), mode, version, pool).await?;
        self.register_in(keys::PROJECT_REGISTER, &project, Mode::Replace, 0, None).await?;
        Ok(registered)
    }

    /// Registers the queue under its own version, unless it is registered. Returns whether it was
    /// not registered. If the queue does not exist afterwards, the registration is removed again.
    pub(super) async fn confirm_registration(&self, queue: &QueueId) -> Result<bool, Error> {
        let Some(version) = self.version_of_queue(queue).await? else {
            return Ok(false);
        };
        let register = keys::queue_register(queue.project());
        let (registered, is_new) =
            self.register_in(&register, queue.name().as_str(), Mode::IfAbsent, version, None).await?;
        if let Some(pool) = registered.pool {
            warn!(%queue, %pool, "the catalogue says that a queue of this store is in a pool; it is not used here");
            return Ok(false);
        }
        let project = keys::encode_project(queue.project());
        self.register_in(keys::PROJECT_REGISTER, &project, Mode::IfAbsent, 0, None).await?;
        if is_new && self.version_of_queue(queue).await?.is_none() {
            // The queue was deleted in between, perhaps before there was a registration to remove.
            self.remove_registration(queue, version).await?;
            return Ok(false);
        }
        Ok(is_new)
    }

    /// Removes the registration of a queue, if it still has this version.
    pub(super) async fn remove_registration(&self, queue: &QueueId, version: u64) -> Result<(), Error> {
        self.remove_member(queue.project(), &Registration::of(queue, version)).await
    }

    /// Removes exactly this registration of a queue.
    pub(super) async fn remove_member(&self, project: &ProjectId, registration: &Registration) -> Result<(), Error> {
        let register = keys::queue_register(project);
        self.connection.command("ZREM", &register, &[&registration.member()]).await.map(drop)
    }

    /// Removes a project, if its registration still has the version from before the project was
    /// found to be empty.
    pub(super) async fn remove_project(&self, project: &Registration) -> Result<(), Error> {
        self.connection.command("ZREM", keys::PROJECT_REGISTER, &[&project.member()]).await.map(drop)
    }

    /// Returns the version under which the queue is registered in this store.
    pub(super) async fn registered_version(&self, queue: &QueueId) -> Result<Option<u64>, Error> {
        let registration = self.registration(queue).await?.filter(|registration| registration.pool.is_none());
        Ok(registration.map(|registration| registration.version))
    }

    /// Returns the registration of the queue.
    pub(super) async fn registration(&self, queue: &QueueId) -> Result<Option<Registration>, Error> {
        let name = queue.name().as_str();
        let (from, to) = (format!("[{name}{SEPARATOR}"), format!("({name}{AFTER_SEPARATOR}"));
        Ok(self.registrations(&keys::queue_register(queue.project()), &from, &to, 1).await?.pop())
    }

    /// Returns up to `limit` registered names of queues in this range, whether the queues exist or
    /// not.
    pub(super) async fn registered_names(
        &self,
        project: &ProjectId,
        names: &NameRange,
        limit: usize,
    ) -> Result<Vec<QueueName>, Error> {
        let found = self.registered_queues(project, names, limit).await?;
        Ok(found.into_iter().map(|(name, _registration)| name).collect())
    }

    /// The same with the registrations of the queues.
    pub(super) async fn registered_queues(
        &self,
        project: &ProjectId,
        names: &NameRange,
        limit: usize,
    ) -> Result<Vec<(QueueName, Registration)>, Error> {
        let (from, to) = range_of(names);
        let found = self.registrations(&keys::queue_register(project), &from, &to, limit).await?;
        let with_name = |registration: Registration| {
            let corrupt = |_| Error::Corrupt(format!("a register has the invalid queue name {:?}", registration.name));
            Ok((QueueName::from_stored(&registration.name).map_err(corrupt)?, registration))
        };
        // A zero byte in the prefix is that of the separator in a member.
        found.into_iter().filter(|found| found.name.starts_with(&names.prefix)).map(with_name).collect()
    }

    /// Returns the registration of the next project.
    pub(super) async fn project_after(&self, project: Option<&ProjectId>) -> Result<Option<Registration>, Error> {
        Ok(self.projects_after(project, 1).await?.pop())
    }

    /// Returns the registrations of the next projects.
    pub(super) async fn projects_after(
        &self,
        project: Option<&ProjectId>,
        limit: usize,
    ) -> Result<Vec<Registration>, Error> {
        let after = project.map(keys::encode_project);
        self.registrations(keys::PROJECT_REGISTER, &start_after(after.as_deref()), "+", limit).await
    }

    /// Returns the version under which the queue was created, if it exists.
    pub(super) async fn version_of_queue(&self, queue: &QueueId) -> Result<Option<u64>, Error> {
        let key = keys::QueueKeys::of(queue).queue();
        let version = self.connection.command("HGET", &key, &["s"]).await?.text_or_nil()?;
        version.map(|version| reply::parse_number(&version)).transpose()
    }

    /// Registers a name. Returns the registration that there is now, and whether this call has made
    /// it.
    async fn register_in(
        &self,
        register: &str,
        name: &str,
        mode: Mode,
        version: u64,
        pool: Option<&PoolName>,
    ) -> Result<(Registration, bool), Error> {
        let mode = match mode {
            Mode::Replace => "replace",
            Mode::IfAbsent => "if_absent",
            Mode::Exactly => "exactly",
        };
        let pool = pool.map_or("", PoolName::as_str);
        let args = [name, mode, &version.to_string(), pool].map(|text| Bytes::copy_from_slice(text.as_bytes()));
        let mut reply = self.connection.run_on(&REGISTER, vec![register.to_owned()], args.to_vec()).await?;
        let (version, is_new, pool) = (reply.number()?, reply.number()? == 1, read_pool(&reply.text()?)?);
        Ok((Registration { name: name.to_owned(), version, pool }, is_new))
    }

    async fn registrations(
        &self,
        register: &str,
        from: &str,
        to: &str,
        limit: usize,
    ) -> Result<Vec<Registration>, Error> {
        let args = [from, to, "LIMIT", "0", &limit.to_string()];
        let mut reply = self.connection.command("ZRANGEBYLEX", register, &args).await?;
        reply.read_all(|reply| Registration::read(register, &reply.text()?))
    }
}

/// Returns the start and the end of the range of members with these names.
fn range_of(names: &NameRange) -> (String, String) {
    let NameRange { after, prefix, below } = names;
    let from = match after {
        Some(after) if text_of_name(after) >= prefix.as_str() => start_after(Some(after)),
        _ => format!("[{prefix}"),
    };
    let after_prefix = (!prefix.is_empty()).then(|| format!("{prefix}{AFTER_NAMES}"));
    let end = after_prefix.into_iter().chain(below.map(str::to_owned)).min();
    (from, end.map_or("+".to_owned(), |end| format!("({end}")))
}

/// Returns the start of the range of members whose names follow this text.
fn start_after(after: Option<&str>) -> String {
    after.map_or("-".to_owned(), |text| format!("({}{AFTER_SEPARATOR}", text_of_name(text)))
}

/// Returns the part of a text that counts in a comparison with names: that up to the first zero
/// byte, because no name has one.
fn text_of_name(text: &str) -> &str {
    text.split(SEPARATOR).next().unwrap_or_default()
}
