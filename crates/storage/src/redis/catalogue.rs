//! The catalogue of queues in Redis. It is part of the registers: the registration of a queue that
//! is in a pool names the pool, and its version is the epoch of the location.

use async_trait::async_trait;
use bytes::Bytes;

use super::RedisStore;
use super::keys::{self, QueueKeys};
use super::registrations::{Mode, Registration, read_pool};
use super::script::{LOCATION_REPLACE, QUEUE_NOTIFY};
use crate::{Catalogue, Epoch, Error, Location, LocationPage, NameRange};
use sukkal_domain::{PoolName, ProjectId, QueueId};

#[async_trait]
impl Catalogue for RedisStore {
    async fn find_location(&self, queue: &QueueId) -> Result<Option<Location>, Error> {
        if let Some(registration) = self.registration(queue).await? {
            return Ok(Some(location(registration)));
        }
        // A register may lose names when its slot fails over to a replica, while the queue remains.
        Ok(self.version_of_queue(queue).await?.map(|version| Location { pool: None, epoch: Epoch(version) }))
    }

    async fn locate_queue(&self, queue: &QueueId, pool: &PoolName) -> Result<Location, Error> {
        let lowest = self.number_after_tombstone(queue).await?;
        let (registered, is_new) = self.register_with_project(queue, Mode::IfAbsent, lowest, Some(pool)).await?;
        let located = location(registered);
        // A deletion may have stored a tombstone since it was read, before it removed its location.
        let lowest = self.number_after_tombstone(queue).await?;
        if is_new && lowest > located.epoch.0 {
            return match self.replace_location(queue, &located, Some(pool), Epoch(lowest)).await? {
                Some(location) => Ok(location),
                None => Err(Error::Unavailable(format!("queue {queue} was deleted while it was created"))),
            };
        }
        Ok(located)
    }

    async fn replace_location(
        &self,
        queue: &QueueId,
        known: &Location,
        pool: Option<&PoolName>,
        lowest: Epoch,
    ) -> Result<Option<Location>, Error> {
        let register = keys::queue_register(queue.project());
        let known = registration(queue, known).without_name();
        let args = [queue.name().as_str(), &known, &lowest.0.to_string(), pool.map_or("", PoolName::as_str)];
        let args = args.map(|text| Bytes::copy_from_slice(text.as_bytes())).to_vec();
        let mut reply = self.connection.run_on(&LOCATION_REPLACE, vec![register], args).await?;
        if reply.is_empty() {
            return Ok(None);
        }
        Ok(Some(Location { epoch: Epoch(reply.number()?), pool: read_pool(&reply.text()?)? }))
    }

    async fn remove_location(&self, queue: &QueueId, known: &Location, last_number: u64) -> Result<(), Error> {
        self.put_tombstone(queue, known.epoch, last_number).await?;
        self.remove_member(queue.project(), &registration(queue, known)).await
    }

    async fn list_locations(
        &self,
        project: &ProjectId,
        names: &NameRange,
        examined_max: usize,
    ) -> Result<LocationPage, Error> {
        let found = self.registered_queues(project, names, examined_max).await?;
        let reached = found.last().map(|(name, _)| name.clone()).filter(|_| found.len() == examined_max);
        Ok(LocationPage { queues: found.into_iter().map(|(name, found)| (name, location(found))).collect(), reached })
    }

    async fn notify_moved(&self, queue: &QueueId) -> Result<(), Error> {
        self.connection.run(&QUEUE_NOTIFY, &QueueKeys::of(queue), &[]).await.map(drop)
    }
}

fn location(registration: Registration) -> Location {
    Location { pool: registration.pool, epoch: Epoch(registration.version) }
}

fn registration(queue: &QueueId, location: &Location) -> Registration {
    Registration { name: queue.name().as_str().to_owned(), version: location.epoch.0, pool: location.pool.clone() }
}
