//! Flavors: named sets of pools. Everybody in a project may list its flavors, and operators change
//! them.
//!
//! A pool names the flavor that it belongs to. Flavors of the same name in several projects
//! therefore have the same pools.

use super::access::{AdmittedStore, require_client};
use super::pools::{change_list, no_pool};
use super::range::page_limit;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::{Flavor, FlavorName, Metadata, PoolName, ProjectId, Warning, WithWarnings};
use sukkal_storage::{FLAVORS_MAX, PoolList};

/// A flavor with the names of its pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlavorPools {
    /// The name of the flavor.
    pub name: FlavorName,
    /// The names of its pools.
    pub pools: Vec<PoolName>,
}

impl Broker {
    /// Returns the flavors of the caller's project whose names follow `after`, at most `limit`, or
    /// the default number of queues in a page.
    pub async fn list_flavors(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<i64>,
    ) -> Result<Vec<FlavorPools>, Error> {
        let project = &require_client(caller)?.project;
        let access = self.store.authorize(caller, Action::ListFlavors, project)?;
        let limit = page_limit(limit, self.limits.max_queues_per_page)?;
        let list = self.known_pools.read(&access.admit().await?).await?;
        let own = list.flavors.iter().filter(|flavor| flavor.project == *project);
        let following = own.filter(|flavor| after.is_none_or(|after| flavor.name.as_str() > after));
        Ok(following.take(limit).map(|flavor| with_pools(&list, &flavor.name)).collect())
    }

    /// Returns a flavor of the caller's project.
    pub async fn get_flavor(&self, caller: &Caller, name: &str) -> Result<FlavorPools, Error> {
        let project = &require_client(caller)?.project;
        let store = self.store.authorize(caller, Action::GetFlavor, project)?.admit().await?;
        let list = self.known_pools.read(&store).await?;
        let found = find(&list, project, name).ok_or_else(|| no_flavor(name))?;
        Ok(with_pools(&list, &found.name))
    }

    /// Creates a flavor that has these pools, or replaces it if it exists.
    pub async fn create_flavor(&self, caller: &Caller, name: &str, pools: Vec<String>) -> Result<Vec<Warning>, Error> {
        let project = require_client(caller)?.project.clone();
        let store = self.store.authorize(caller, Action::CreateFlavor, &project)?.admit().await?;
        let name: FlavorName = name.parse().map_err(|error| Error::Limit(format!("{error}")))?;
        if pools.is_empty() {
            return Err(no_pools());
        }
        self.run_to_completion(async move {
            change_list(&store, |list| {
                give(list, &name, &pools).map_err(|error| {
                    Error::FlavorNotCreated(format!("Flavor {name} could not be created, error:{error}"))
                })?;
                if find(list, &project, name.as_str()).is_none() {
                    if list.flavors.len() >= FLAVORS_MAX {
                        let text =
                            format!("there are {FLAVORS_MAX} flavors, which is the maximum; delete one of them first");
                        return Err(Error::Conflict(text));
                    }
                    list.flavors.push(Flavor { project: project.clone(), name: name.clone() });
                    list.flavors.sort_by(|a, b| (&a.project, &a.name).cmp(&(&b.project, &b.name)));
                }
                Ok(())
            })
            .await
            .map(|changed| changed.warnings)
        })
        .await
    }

    /// Replaces the pools of a flavor that exists, and returns it.
    pub async fn update_flavor(
        &self,
        caller: &Caller,
        name: &str,
        pools: Vec<String>,
    ) -> Result<WithWarnings<FlavorPools>, Error> {
        let project = require_client(caller)?.project.clone();
        let store = self.store.authorize(caller, Action::UpdateFlavor, &project)?.admit().await?;
        if pools.is_empty() {
            return Err(no_pools());
        }
        let name = name.to_owned();
        self.run_to_completion(async move {
            change_list(&store, |list| {
                let name = find(list, &project, &name).ok_or_else(|| no_flavor(&name))?.name.clone();
                give(list, &name, &pools).map_err(|error| {
                    Error::FlavorNotUpdated(format!("Flavor {name} cant be updated, error:{error}"))
                })?;
                Ok(with_pools(list, &name))
            })
            .await
        })
        .await
    }

    /// Deletes a flavor. Its pools lose it, unless another project has a flavor with this name.
    /// Deleting an unknown flavor has no effect.
    pub async fn delete_flavor(&self, caller: &Caller, name: &str) -> Result<Vec<Warning>, Error> {
        let project = require_client(caller)?.project.clone();
        let store = self.store.authorize(caller, Action::DeleteFlavor, &project)?.admit().await?;
        let name = name.to_owned();
        self.run_to_completion(async move {
            change_list(&store, |list| {
                let Some(flavor) = find(list, &project, &name).cloned() else { return Ok(()) };
                list.flavors.retain(|other| *other != flavor);
                if !list.flavors.iter().any(|other| other.name == flavor.name) {
                    take_from_all(list, &flavor.name);
                }
                Ok(())
            })
            .await
            .map(|changed| changed.warnings)
        })
        .await
    }

    /// Checks that the project has the flavor that the metadata names, if it names one, and that
    /// the flavor has pools. Without pooling, the metadata may name anything.
    pub(super) async fn check_flavor(
        &self,
        store: &AdmittedStore,
        project: &ProjectId,
        metadata: &Metadata,
    ) -> Result<(), Error> {
        if self.pooling.is_none() {
            return Ok(());
        }
        metadata.check_flavor()?;
        let Some(name) = metadata.flavor() else { return Ok(()) };
        let list = self.known_pools.read(store).await?;
        let flavor = find(&list, project, name).ok_or_else(|| no_flavor(name))?;
        if with_pools(&list, &flavor.name).pools.is_empty() {
            return Err(Error::Limit(format!("Flavor {name} has no pools")));
        }
        Ok(())
    }
}

fn no_pools() -> Error {
    Error::FlavorNotCreated("Bad Request: \"pool_list\" is empty; name at least one pool".to_owned())
}

fn no_flavor(name: &str) -> Error {
    Error::NotFound(format!("Flavor {name} does not exist"))
}

fn find<'l>(list: &'l PoolList, project: &ProjectId, name: &str) -> Option<&'l Flavor> {
    list.flavors.iter().find(|flavor| flavor.project == *project && flavor.name.as_str() == name)
}

fn with_pools(list: &PoolList, name: &FlavorName) -> FlavorPools {
    let pools = list.pools.iter().map(|stored| &stored.pool);
    let own = pools.filter(|pool| !pool.is_retired && pool.flavor.as_ref() == Some(name));
    FlavorPools { name: name.clone(), pools: own.map(|pool| pool.name.clone()).collect() }
}

/// Gives a flavor exactly these pools. Fails if one of them does not exist.
fn give(list: &mut PoolList, flavor: &FlavorName, pools: &[String]) -> Result<(), Error> {
    take_from_all(list, flavor);
    for name in pools {
        let mut stored = list.pools.iter_mut().map(|stored| &mut stored.pool);
        let pool = stored.find(|pool| !pool.is_retired && pool.name.as_str() == name);
        pool.ok_or_else(|| no_pool(name))?.flavor = Some(flavor.clone());
    }
    Ok(())
}

fn take_from_all(list: &mut PoolList, flavor: &FlavorName) {
    for stored in &mut list.pools {
        stored.pool.flavor.take_if(|own| own == flavor);
    }
}
