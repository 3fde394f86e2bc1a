//! The registers: one of all projects, and one of each project's queues. Names with versions, in byte order.
//!
//! A project and its queues are in different slots, so there is an order: a project is registered before the first name
//! of a queue, so that a crash leaves no name that is never found, and again under a fresh version behind it, because the project may
//! have been removed in between. A project is removed only at the version that was read before it was seen
//! empty.

use std::fmt::Display;

use bytes::Bytes;

use super::RedisStore;
use super::keys;
use super::reply;
use super::script::REGISTER;
use crate::domain::{ProjectId, QueueId, QueueName};
use crate::storage::Error;

/// What stands between a name and its version.
const SEPARATOR: char = '\0';
/// The byte behind it.
const BEHIND_SEPARATOR: char = '\u{1}';

/// A name with the version of its registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    pub(super) name: String,
    pub(super) version: u64,
}

impl Registration {
    fn member(&self) -> String {
        format!("{}{SEPARATOR}{}", self.name, self.version)
    }
}

impl RedisStore {
    /// Registers a queue that is about to be created, under a version that is at least `lowest` and above that of any
    /// registration that is present. Returns the version.
    pub(super) async fn register(&self, queue: &QueueId, lowest: u64) -> Result<u64, Error> {
        let project = keys::encoded(queue.project());
        self.register_anew(keys::PROJECTS, &project, 0).await?;
        let version = self.register_anew(&keys::queue_names(queue.project()), queue.name().as_str(), lowest).await?;
        self.register_anew(keys::PROJECTS, &project, 0).await?;
        Ok(version)
    }

    /// Registers the queue under the version that it has itself, unless it is registered. Returns whether it was
    /// not; so there is nothing left of this if the queue does not exist afterwards.
    pub(super) async fn confirm_registration(&self, queue: &QueueId) -> Result<bool, Error> {
        let Some(version) = self.own_version(queue).await? else {
            return Ok(false);
        };
        let register = keys::queue_names(queue.project());
        let is_new = self.confirm(&register, queue.name().as_str(), version).await?;
        self.confirm(keys::PROJECTS, &keys::encoded(queue.project()), 0).await?;
        if is_new && self.own_version(queue).await?.is_none() {
            // It was deleted in between, perhaps before its name was there to be removed.
            self.remove_registration(queue, version).await?;
            return Ok(false);
        }
        Ok(is_new)
    }

    /// Removes the registration of a queue, if it still has this version.
    pub(super) async fn remove_registration(&self, queue: &QueueId, version: u64) -> Result<(), Error> {
        let registration = Registration { name: queue.name().as_str().to_owned(), version };
        let register = keys::queue_names(queue.project());
        self.connection.command("ZREM", &register, &[&registration.member()]).await.map(drop)
    }

    /// Removes a project, if its registration still has the version that it had before the project was seen empty.
    pub(super) async fn remove_project(&self, project: &Registration) -> Result<(), Error> {
        self.connection.command("ZREM", keys::PROJECTS, &[&project.member()]).await.map(drop)
    }

    /// The version under which the queue is registered.
    pub(super) async fn registered_version(&self, queue: &QueueId) -> Result<Option<u64>, Error> {
        let name = queue.name();
        let (from, to) = (format!("[{name}{SEPARATOR}"), format!("({name}{BEHIND_SEPARATOR}"));
        let found = self.registrations(&keys::queue_names(queue.project()), &from, &to, 1).await?;
        Ok(found.first().map(|registration| registration.version))
    }

    /// Up to `limit` names of queues behind `after`, whether their queues exist or not.
    pub(super) async fn registered_names(
        &self,
        project: &ProjectId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<QueueName>, Error> {
        let found = self.registrations(&keys::queue_names(project), &behind(after), "+", limit).await?;
        let name = |registration: Registration| {
            let corrupt = |_| Error::Corrupt(format!("{:?} is registered as a queue", registration.name));
            registration.name.parse().map_err(corrupt)
        };
        found.into_iter().map(name).collect()
    }

    /// The registration of the next project.
    pub(super) async fn project_after(&self, project: Option<&ProjectId>) -> Result<Option<Registration>, Error> {
        let after = project.map(keys::encoded);
        Ok(self.registrations(keys::PROJECTS, &behind(after.as_deref()), "+", 1).await?.pop())
    }

    /// The version under which the queue was created, if it exists.
    async fn own_version(&self, queue: &QueueId) -> Result<Option<u64>, Error> {
        let key = keys::QueueKeys::of(queue).queue();
        let version = self.connection.command("HGET", &key, &["s"]).await?.text_or_nil()?;
        version.map(|version| reply::parse(&version)).transpose()
    }

    async fn register_anew(&self, register: &str, name: &str, lowest: u64) -> Result<u64, Error> {
        let mut reply =
            self.connection.run_on(&REGISTER, vec![register.to_owned()], args(name, "anew", lowest)).await?;
        reply.number()
    }

    /// Registers a name where none is present; whether it has done so.
    async fn confirm(&self, register: &str, name: &str, version: u64) -> Result<bool, Error> {
        let args = args(name, "confirm", version);
        let mut reply = self.connection.run_on(&REGISTER, vec![register.to_owned()], args).await?;
        let _present = reply.number()?;
        Ok(reply.number()? == 1)
    }

    async fn registrations(
        &self,
        register: &str,
        from: &str,
        to: &str,
        limit: usize,
    ) -> Result<Vec<Registration>, Error> {
        let words = [from, to, "LIMIT", "0", &limit.to_string()];
        let mut reply = self.connection.command("ZRANGEBYLEX", register, &words).await?;
        let mut found = Vec::new();
        while !reply.is_empty() {
            let member = reply.text()?;
            let (name, version) = member
                .split_once(SEPARATOR)
                .ok_or_else(|| Error::Corrupt(format!("{register} has {member:?}, which has no version")))?;
            found.push(Registration { name: name.to_owned(), version: reply::parse(version)? });
        }
        Ok(found)
    }
}

fn args(name: &str, mode: &'static str, version: impl Display) -> Vec<Bytes> {
    let version = version.to_string();
    vec![Bytes::copy_from_slice(name.as_bytes()), Bytes::from_static(mode.as_bytes()), Bytes::from(version)]
}

/// From where a register is read to find the names that follow this text. No name has a zero byte, so the text counts up to the
/// first one.
fn behind(after: Option<&str>) -> String {
    let name = |text: &str| text.split(SEPARATOR).next().unwrap_or_default().to_owned();
    after.map_or("-".to_owned(), |text| format!("({}{BEHIND_SEPARATOR}", name(text)))
}
