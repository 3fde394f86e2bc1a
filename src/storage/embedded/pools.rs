//! The list of pools and flavors in the embedded store: a row of the registry with the version and
//! the list.

use async_trait::async_trait;
use bytes::Bytes;

use crate::storage::embedded::engine::error::damaged;
use crate::storage::embedded::engine::tables::Table;
use crate::storage::embedded::rows::keys::POOLS;
use crate::storage::embedded::store::EmbeddedStore;
use crate::storage::embedded::transaction::read::View;
use crate::storage::embedded::transaction::writer::Step;
use crate::storage::pools::{decode, encode};
use crate::storage::{Error, PoolList, PoolStore, PoolsVersion};

const VERSION_BYTES: usize = 16;

#[async_trait]
impl PoolStore for EmbeddedStore {
    async fn load_pools(&self, known: Option<&PoolsVersion>) -> Result<Option<PoolList>, Error> {
        let known = known.cloned();
        self.read(move |view| match view.pools_version()? {
            None => Ok(Some(PoolList::default())),
            Some(version) if known.as_ref() == Some(&version) => Ok(None),
            Some(version) => view.pools(version).map(Some),
        })
        .await
    }

    async fn replace_pools(&self, last_known: Option<&PoolsVersion>, list: &PoolList) -> Result<bool, Error> {
        let last_known = last_known.cloned();
        let (version, list) = (PoolsVersion::random(), encode(list));
        self.write(list.len(), move |store| {
            if store.view.pools_version()? != last_known {
                return Ok(Step::Done(false));
            }
            store.put_registry(POOLS, &[&version.0, &list[..]].concat())?;
            Ok(Step::Done(true))
        })
        .await
    }
}

impl<T: Table> View<T> {
    /// Returns the version of the list, if there is one.
    fn pools_version(&self) -> Result<Option<PoolsVersion>, Error> {
        let Some(row) = self.registry.get(POOLS)? else { return Ok(None) };
        let version = row.value().get(..VERSION_BYTES).ok_or_else(|| damaged("the list of pools"))?;
        Ok(Some(PoolsVersion(Bytes::copy_from_slice(version))))
    }

    /// Returns the list, which has this version.
    fn pools(&self, version: PoolsVersion) -> Result<PoolList, Error> {
        match self.registry.get(POOLS)? {
            Some(row) => decode(version.0, row.value().get(VERSION_BYTES..).unwrap_or_default()),
            None => Ok(PoolList::default()),
        }
    }
}
