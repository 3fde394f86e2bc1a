//! Pools: the stores that keep queues, for operators.
//!
//! A pool that is deleted while it has queues is *retired*: it is not shown and gets no new queues,
//! and it keeps those that it has. So does a pool whose deleted queues have dead letters to
//! forward. Creating a pool with its name revives it.

use serde_json::{Map, Value};

use super::access::{AdmittedStore, Resource};
use super::range::page_limit;
use super::{Action, Broker, Error};
use crate::auth::Caller;
use sukkal_domain::{FlavorName, Pool, PoolName, PoolUri, Warning, WithWarnings};
use sukkal_storage::{DATABASE_KEY, DatabaseId, POOLS_MAX, PoolList, StoredPool};

/// Maximum number of attempts to change a list that other requests change at the same time. Each
/// attempt fails only because another change has succeeded.
const ATTEMPTS_MAX: usize = 32;

/// What a request says about a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolChange {
    /// The address.
    pub uri: Option<PoolUri>,
    /// The weight.
    pub weight: Option<u32>,
    /// The flavor; `Some(None)` for no flavor.
    pub flavor: Option<Option<FlavorName>>,
    /// The options.
    pub options: Option<Map<String, Value>>,
}

impl Broker {
    /// Returns the pools whose names follow `after`, at most `limit`, or the default number of
    /// queues in a page.
    pub async fn list_pools(
        &self,
        caller: &Caller,
        after: Option<&str>,
        limit: Option<i64>,
    ) -> Result<Vec<Pool>, Error> {
        let access = self.store.authorize(caller, Action::ListPools, Resource::Store)?;
        let limit = page_limit(limit, self.limits.max_queues_per_page)?;
        let list = self.known_pools.read(&access.admit().await?).await?;
        let pools = list.pools.iter().map(|stored| &stored.pool);
        let follows = |pool: &&Pool| !pool.is_retired && after.is_none_or(|after| pool.name.as_str() > after);
        Ok(pools.filter(follows).take(limit).cloned().collect())
    }

    /// Returns a pool.
    pub async fn get_pool(&self, caller: &Caller, name: &str) -> Result<Pool, Error> {
        let store = self.store.authorize(caller, Action::GetPool, Resource::Store)?.admit().await?;
        let list = self.known_pools.read(&store).await?;
        let found = list.pools.iter().map(|stored| &stored.pool).find(|pool| is_shown(pool, name));
        found.cloned().ok_or_else(|| no_pool(name))
    }

    /// Creates a pool, or replaces it if it exists. The change must have a URI and a weight. Warns
    /// about flavors, as all changes of pools and flavors do.
    pub async fn create_pool(&self, caller: &Caller, name: &str, change: PoolChange) -> Result<Vec<Warning>, Error> {
        let store = self.store.authorize(caller, Action::CreatePool, Resource::Store)?.admit().await?;
        let name: PoolName = name.parse().map_err(|error| Error::Limit(format!("{error}")))?;
        let (Some(uri), Some(weight)) = (change.uri, change.weight) else {
            return Err(Error::Pool("a pool needs \"uri\" and \"weight\"".to_owned()));
        };
        let (flavor, options) = (change.flavor.flatten(), change.options.unwrap_or_default());
        let pool = Pool { name, uri: uri.clone(), weight, flavor, options, is_retired: false };
        let changed = self.change_pool(store, pool.name.clone(), Some(uri), move |_before| Ok(pool.clone()));
        Ok(changed.await?.warnings)
    }

    /// Changes a pool that exists, and returns it.
    pub async fn update_pool(
        &self,
        caller: &Caller,
        name: &str,
        change: PoolChange,
    ) -> Result<WithWarnings<Pool>, Error> {
        let store = self.store.authorize(caller, Action::UpdatePool, Resource::Store)?.admit().await?;
        let name: PoolName = name.parse().map_err(|_| no_pool(name))?;
        let missing = name.to_string();
        self.change_pool(store, name, change.uri.clone(), move |before| {
            let mut pool = before.filter(|before| !before.is_retired).ok_or_else(|| no_pool(&missing))?.clone();
            let PoolChange { uri, weight, flavor, options } = change.clone();
            pool.uri = uri.unwrap_or(pool.uri);
            pool.weight = weight.unwrap_or(pool.weight);
            pool.flavor = flavor.unwrap_or(pool.flavor);
            pool.options = options.unwrap_or(pool.options);
            Ok(pool)
        })
        .await
    }

    /// Deletes a pool. If it may have queues, it is retired, with a warning. Deleting an unknown
    /// pool has no effect.
    pub async fn delete_pool(&self, caller: &Caller, name: &str) -> Result<WithWarnings<()>, Error> {
        let store = self.store.authorize(caller, Action::DeletePool, Resource::Store)?.admit().await?;
        let Ok(name) = name.parse::<PoolName>() else {
            load(&store).await?;
            return Ok(WithWarnings::none(()));
        };
        self.run_to_completion(async move {
            for _ in 0..ATTEMPTS_MAX {
                // From here on, the pool gets no new queues.
                change_list(&store, |list| retire(list, &name)).await?;
                let mut list = load(&store).await?;
                let is_this = |stored: &StoredPool| stored.pool.name == name && stored.pool.is_retired;
                let Some(at) = list.pools.iter().position(is_this) else {
                    return Ok(WithWarnings::none(()));
                };
                if store.pool_has_queues(&name).await.unwrap_or(true) {
                    return Ok(WithWarnings { value: (), warnings: vec![Warning::PoolRetired] });
                }
                list.pools.remove(at);
                // Refused if the list has changed, because the pool may have been revived
                // meanwhile.
                if store.replace_pools(list.version.clone().as_ref(), &list).await? {
                    return Ok(WithWarnings::none(()));
                }
            }
            Err(changes_too_often())
        })
        .await
    }

    /// Replaces a pool, which may be retired or not exist, by what `change` returns for it. `uri`
    /// is the new address, if there is one. Returns the pool as it is shown.
    ///
    /// A place of the catalogue names a pool, whatever its address is. So before the address
    /// changes, the pool is closed for new queues, and then the catalogue is searched for queues of
    /// the pool.
    async fn change_pool(
        &self,
        store: AdmittedStore,
        name: PoolName,
        uri: Option<PoolUri>,
        change: impl Fn(Option<&Pool>) -> Result<Pool, Error> + Send + Sync + 'static,
    ) -> Result<WithWarnings<Pool>, Error> {
        load(&store).await?;
        if let Some(uri) = &uri {
            let database = self.check_uri(uri).await?;
            check_database(&store, &name, uri, &database).await?;
        }
        let this = self.clone();
        self.run_to_completion(async move {
            for _ in 0..ATTEMPTS_MAX {
                let mut list = load(&store).await?;
                let (version, old) = (list.version.clone(), list.clone());
                let at = list.pools.binary_search_by(|stored| stored.pool.name.cmp(&name));
                let before = at.ok().map(|at| &list.pools[at]);
                let stored = this.changed(&list, before, uri.as_ref(), &change)?;
                let shown = stored.pool.clone();
                match at {
                    Ok(at) if uri.as_ref().is_none_or(|uri| list.pools[at].pool.uri.is_same_store(uri)) => {
                        list.pools[at] = stored;
                    }
                    Ok(at) if !list.pools[at].is_closed => {
                        list.pools[at].is_closed = true;
                        store.replace_pools(version.as_ref(), &list).await?;
                        continue;
                    }
                    Ok(_) if store.pool_has_queues(&name).await.unwrap_or(true) => {
                        change_list(&store, |list| {
                            list.pools.iter_mut().filter(|stored| stored.pool.name == name).for_each(|stored| {
                                stored.is_closed = false;
                            });
                            Ok(())
                        })
                        .await?;
                        return Err(Error::Conflict(format!(
                            "pool {name} has queues or may have some, which do not move; its uri must name the same \
                             host, port and database"
                        )));
                    }
                    Ok(at) => list.pools[at] = stored,
                    Err(_) if list.pools.len() >= POOLS_MAX => {
                        let text =
                            format!("there are {POOLS_MAX} pools, which is the maximum; delete one of them first");
                        return Err(Error::Conflict(text));
                    }
                    Err(at) => list.pools.insert(at, stored),
                }
                // Refused if the list has changed, because the pool may have got queues meanwhile.
                if store.replace_pools(version.as_ref(), &list).await? {
                    return Ok(WithWarnings { value: shown, warnings: warnings(&old, &list) });
                }
            }
            Err(changes_too_often())
        })
        .await
    }

    /// Returns the pool as it is stored after a change.
    fn changed(
        &self,
        list: &PoolList,
        before: Option<&StoredPool>,
        uri: Option<&PoolUri>,
        change: impl Fn(Option<&Pool>) -> Result<Pool, Error>,
    ) -> Result<StoredPool, Error> {
        let pool = change(before.map(|before| &before.pool))?;
        if uri.is_none()
            && let Some(before) = before
        {
            return Ok(StoredPool { pool, ..before.clone() });
        }
        check_conflict(list, &pool.name, &pool.uri)?;
        let stored = StoredPool::new(pool, self.encryption.uri_cipher());
        stored.map_err(|error| Error::Pool(error.to_string()))
    }

    /// Checks that the address can be that of a pool, and connects to it once. Returns its
    /// database.
    async fn check_uri(&self, uri: &PoolUri) -> Result<DatabaseId, Error> {
        let pooling = self.pooling.as_ref().ok_or(Error::Forbidden)?;
        if uri.is_masked() {
            let text = format!("uri is {uri}, as it is shown; replace *** with the user and the password");
            return Err(Error::Pool(text));
        }
        if uri.has_credentials() && self.encryption.uri_cipher().is_none() {
            return Err(Error::Pool(sukkal_storage::SealedUriError::NoKey.to_string()));
        }
        if pooling.management_store.as_ref().is_some_and(|store| store.is_same_store(uri)) {
            return Err(is_management_store(uri));
        }
        let unusable = |reason: String| Error::Pool(format!("cannot connect to {uri}: {reason}"));
        pooling.connector.check(uri).await.map_err(unusable)
    }
}

/// Loads the list of pools and flavors.
async fn load(store: &AdmittedStore) -> Result<PoolList, Error> {
    Ok(store.load_pools(None).await?.unwrap_or_default())
}

/// Changes the list of pools and flavors. If it changes meanwhile, `change` is called again with
/// the new list.
pub(super) async fn change_list<T>(
    store: &AdmittedStore,
    change: impl Fn(&mut PoolList) -> Result<T, Error>,
) -> Result<WithWarnings<T>, Error> {
    for _ in 0..ATTEMPTS_MAX {
        let before = load(store).await?;
        let mut list = before.clone();
        let outcome = change(&mut list)?;
        if list == before || store.replace_pools(before.version.as_ref(), &list).await? {
            return Ok(WithWarnings { value: outcome, warnings: warnings(&before, &list) });
        }
    }
    Err(changes_too_often())
}

/// Returns warnings about pools and flavors that have lost each other.
fn warnings(before: &PoolList, after: &PoolList) -> Vec<Warning> {
    let pools = |list: &PoolList| -> Vec<_> {
        let shown = list.pools.iter().map(|stored| &stored.pool).filter(|pool| !pool.is_retired);
        shown.map(|pool| (pool.name.clone(), pool.flavor.clone())).collect()
    };
    let (old, new) = (pools(before), pools(after));
    let has_pools = |pools: &[(PoolName, Option<FlavorName>)], flavor: &FlavorName| {
        pools.iter().any(|(_, own)| own.as_ref() == Some(flavor))
    };
    let exists = |flavor: &FlavorName| after.flavors.iter().any(|existing| existing.name == *flavor);
    let is_emptied = |flavor: &FlavorName| has_pools(&old, flavor) && !has_pools(&new, flavor);
    let mut changed = new.iter().filter(|pool| !old.contains(pool));
    let is_nowhere = changed.clone().any(|(_, flavor)| flavor.as_ref().is_some_and(|flavor| !exists(flavor)));
    let has_lost_it = |name| old.iter().any(|(own, flavor)| own == name && flavor.is_some());
    [
        (after.flavors.iter().any(|flavor| is_emptied(&flavor.name)), Warning::FlavorWithoutPools),
        (is_nowhere, Warning::NoSuchFlavor),
        (changed.any(|(name, flavor)| flavor.is_none() && has_lost_it(name)), Warning::PoolsWithoutFlavor),
    ]
    .into_iter()
    .filter_map(|(holds, warning)| holds.then_some(warning))
    .collect()
}

fn changes_too_often() -> Error {
    sukkal_storage::Error::Unavailable("the list of pools changes too often".to_owned()).into()
}

pub(super) fn no_pool(name: &str) -> Error {
    Error::NotFound(format!("Pool {name} does not exist"))
}

/// Returns whether the pool has this name and is not retired.
fn is_shown(pool: &Pool, name: &str) -> bool {
    pool.name.as_str() == name && !pool.is_retired
}

/// Retires a pool, if it is not retired yet. Returns whether it exists.
fn retire(list: &mut PoolList, name: &PoolName) -> Result<bool, Error> {
    let Some(at) = list.pools.iter().position(|stored| stored.pool.name == *name) else {
        return Ok(false);
    };
    if let Some(flavor) = &list.pools[at].pool.flavor {
        let pools_of_flavor = list.pools.iter().filter(|stored| stored.pool.flavor.as_ref() == Some(flavor));
        if list.flavors.iter().any(|existing| existing.name == *flavor) && pools_of_flavor.count() == 1 {
            return Err(Error::PoolInUse(flavor.clone()));
        }
    }
    let pool = &mut list.pools[at].pool;
    (pool.is_retired, pool.flavor) = (true, None);
    Ok(true)
}

/// Refuses the address of a pool if it leads to the database of the management store, or to that of
/// another pool with the same label.
async fn check_database(
    store: &AdmittedStore,
    name: &PoolName,
    uri: &PoolUri,
    database: &DatabaseId,
) -> Result<(), Error> {
    let holders = store.stores_with_database(database).await?;
    if holders.contains(&None) {
        return Err(is_management_store(uri));
    }
    let list = load(store).await?;
    check_conflict(&list, name, uri)?;
    let is_same = |other: &&Pool| other.uri.label() == uri.label() && holders.contains(&Some(other.name.clone()));
    match other_pools(&list, name).find(is_same) {
        None => Ok(()),
        Some(other) => Err(Error::Conflict(format!(
            "{uri} leads to the database of pool {} at {}; if it is a copy, delete the key {DATABASE_KEY} in the copy",
            other.name, other.uri
        ))),
    }
}

fn is_management_store(uri: &PoolUri) -> Error {
    Error::Pool(format!(
        "{uri} is the database of the management store, which cannot be a pool; use another server or database, or \
         if it is a copy, delete the key {DATABASE_KEY} in the copy"
    ))
}

/// Refuses the address of a pool if another pool has the same text.
fn check_conflict(list: &PoolList, name: &PoolName, uri: &PoolUri) -> Result<(), Error> {
    match other_pools(list, name).find(|other| other.uri.is_same_address(uri)) {
        None => Ok(()),
        Some(other) => Err(Error::Conflict(format!("pool {} has the uri {}, too", other.name, other.uri))),
    }
}

/// Returns the pools with other names that are not retired.
fn other_pools<'l>(list: &'l PoolList, name: &PoolName) -> impl Iterator<Item = &'l Pool> {
    let pools = list.pools.iter().map(|stored| &stored.pool);
    pools.filter(move |other| !other.is_retired && other.name != *name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sukkal_domain::{Flavor, ProjectId};

    fn list(pools: &[(&str, Option<&str>)]) -> PoolList {
        let pool = |&(name, flavor): &(&str, Option<&str>)| {
            let (name, uri) = (name.parse().unwrap(), format!("redis://h/{name}").parse().unwrap());
            let flavor = flavor.map(|flavor| flavor.parse().unwrap());
            let pool = Pool { name, uri, weight: 1, flavor, options: Map::new(), is_retired: false };
            StoredPool { pool, sealed_uri: None, is_closed: false }
        };
        let flavors = vec![Flavor { project: ProjectId::new("p").unwrap(), name: "fast".parse().unwrap() }];
        PoolList { version: None, pools: pools.iter().map(pool).collect(), flavors }
    }

    #[test]
    fn a_retired_pool_stays_in_the_list_without_being_shown_or_in_a_flavor() {
        let mut list = list(&[("a", Some("fast")), ("b", Some("fast"))]);

        assert!(retire(&mut list, &"a".parse().unwrap()).unwrap());

        let pool = &list.pools[0].pool;
        assert!(pool.is_retired && pool.flavor.is_none() && !is_shown(pool, "a"));
        assert!(retire(&mut list, &"a".parse().unwrap()).unwrap());
        assert!(!retire(&mut list, &"none".parse().unwrap()).unwrap());
        assert!(matches!(retire(&mut list, &"b".parse().unwrap()), Err(Error::PoolInUse(_))));
    }

    #[test]
    fn a_pool_of_a_flavor_that_does_not_exist_can_be_retired() {
        assert!(retire(&mut list(&[("a", Some("other"))]), &"a".parse().unwrap()).unwrap());
    }

    #[test]
    fn only_pools_that_are_shown_keep_an_address_from_others() {
        let mut list = list(&[("a", None)]);
        let other = Pool { name: "b".parse().unwrap(), ..list.pools[0].pool.clone() };

        assert!(matches!(check_conflict(&list, &other.name, &other.uri), Err(Error::Conflict(_))));
        assert!(check_conflict(&list, &list.pools[0].pool.name, &other.uri).is_ok());
        retire(&mut list, &"a".parse().unwrap()).unwrap();
        assert!(check_conflict(&list, &other.name, &other.uri).is_ok());
    }
}
