//! The list of pools and flavors: the trait, its results and the stored form.

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use thiserror::Error;
use uuid::Uuid;

use super::error::Error;
use super::records::{Condition, Read, Records, Row, Table, Write, Written};
use sukkal_domain::{Durability, Flavor, Pool, PoolName, PoolUri, ProjectId, QueueId};

/// Maximum number of pools, with those that are retired.
pub const POOLS_MAX: usize = 100;
/// Maximum number of flavors of all projects together.
pub const FLAVORS_MAX: usize = 1_000;

/// The list of pools and flavors, and its version.
static POOLS: Table = Table { tag: "pools", prefixes: [b's'; 4], indexes: None };

/// Length of a version in front of a list, in bytes.
const VERSION_BYTES: usize = 16;

/// The key in Redis that has the [`DatabaseId`], for messages to operators.
pub const DATABASE_KEY: &str = "sukkal:database";

/// Identifies a database of Redis, whatever address leads to it. It is random, and stored in the
/// database. So a copy of the data has the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseId(pub(super) String);

/// Stores the list of pools and flavors as a whole.
#[async_trait]
pub trait PoolStore: Records {
    /// Returns the keys of the rows with the version and with the list. If there is one row for
    /// both, the list follows the version.
    fn pool_rows(&self) -> [Bytes; 2] {
        ["version".into(), "list".into()]
    }

    /// Returns the list, or `None` if it is still that of the version `known`.
    async fn load_pools(&self, known: Option<&PoolsVersion>) -> Result<Option<PoolList>, Error> {
        let [version_row, list_row] = self.pool_rows().map(Read::Row);
        if let Some(known) = known {
            let (_, found) = self.read_rows(&POOLS, vec![version_row.clone()]).await?;
            if found.iter().flatten().any(|row| row.value.starts_with(&known.0)) {
                return Ok(None);
            }
        }
        let (_, found) = self.read_rows(&POOLS, vec![version_row, list_row]).await?;
        match &*found.concat() {
            [both, same] if both.key == same.key => match both.value.split_at_checked(VERSION_BYTES) {
                Some((version, list)) => decode(Bytes::copy_from_slice(version), list).map(Some),
                None => Err(Error::Corrupt("the list of pools has no version".to_owned())),
            },
            [version, list] => decode(version.value.clone(), &list.value).map(Some),
            _ => Ok(Some(PoolList::default())),
        }
    }

    /// Replaces the list if its version is still `last_known`; `None` stands for a list that was
    /// never stored. The new list gets a new version, whatever its own says. Returns whether the
    /// list was replaced.
    async fn replace_pools(&self, last_known: Option<&PoolsVersion>, list: &PoolList) -> Result<bool, Error> {
        let ([version_row, list_row], version) = (self.pool_rows(), PoolsVersion::random().0);
        let begins = last_known.map(|known| known.0.clone());
        let conditions = vec![Condition::Row { key: version_row.clone(), begins }];
        let before = if list_row == version_row { version.clone() } else { Bytes::new() };
        let list = Row { key: list_row, value: [&before[..], &encode(list)].concat().into() };
        let puts = vec![Row { key: version_row, value: version }, list];
        Ok(self.write_rows(&POOLS, Write { conditions, puts, ..Write::default() }).await? == Written::Done)
    }

    /// Returns whether the pool has queues, or messages that deleted queues are to forward. Returns
    /// an error if that cannot be found out. A store that does not route queues to pools has none
    /// in them.
    async fn pool_has_queues(&self, _pool: &PoolName) -> Result<bool, Error> {
        Ok(false)
    }

    /// Returns the stores of the service that have this database: pools, and `None` for the
    /// management store. Pools that are down are left out. A store that does not route queues to
    /// pools has none.
    async fn stores_with_database(&self, _id: &DatabaseId) -> Result<Vec<Option<PoolName>>, Error> {
        Ok(Vec::new())
    }

    /// Moves the queue to this pool with everything in it, while operations on it wait. A queue
    /// that is in the pool stays there. Refused by a store without pools.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if one of the stores does not answer, or if the queue was deleted or
    /// moved elsewhere meanwhile. Then the queue is complete in one of them, and the move may be
    /// repeated.
    async fn move_queue(&self, _queue: &QueueId, _pool: &PoolName) -> Result<Moved, Error> {
        Ok(Moved::NoPool)
    }
}

/// The outcome of moving a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The queue is in the pool.
    Done,
    /// The queue does not exist.
    NoQueue,
    /// The pool does not exist, or is retired.
    NoPool,
    /// The queue is in the embedded management store, which it cannot leave.
    CannotLeave,
    /// The pool has the same database as the pool of the queue.
    SameDatabase,
    /// The pool has the database of the management store.
    IsManagementStore,
    /// The pool cannot reach the durability that the queue requires of posts.
    OutOfReach(Durability),
}

/// The version of the list of pools and flavors. It changes with each change of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolsVersion(pub(super) Bytes);

/// All pools and flavors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PoolList {
    /// The version of the list; `None` if no list was ever stored.
    pub version: Option<PoolsVersion>,
    /// The pools by name, with those that are retired.
    pub pools: Vec<StoredPool>,
    /// The flavors by project and name.
    pub flavors: Vec<Flavor>,
}

/// A pool as it is stored: a URI with a user or a password is encrypted.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredPool {
    /// The pool. Its URI is masked if it is encrypted.
    pub pool: Pool,
    /// The complete URI, encrypted; `None` if that of [`Self::pool`] is complete.
    pub sealed_uri: Option<Bytes>,
    /// Whether the pool gets no new queues at the moment, because its address is being changed.
    pub is_closed: bool,
}

/// Connects to pools.
#[async_trait]
pub trait PoolConnector: Send + Sync {
    /// Connects to the pool once, for at most some seconds. Returns which database it has, or the
    /// reason why that fails.
    async fn check(&self, uri: &PoolUri) -> Result<DatabaseId, String>;
}

/// Encrypts and decrypts the URIs of pools.
pub trait UriCipher: Send + Sync {
    /// Encrypts the URI of this pool.
    fn seal(&self, pool: &PoolName, uri: &PoolUri) -> Vec<u8>;

    /// Decrypts the URI of this pool.
    fn open(&self, pool: &PoolName, sealed: &[u8]) -> Result<PoolUri, SealedUriError>;
}

/// The reason why the URI of a pool cannot be encrypted or decrypted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SealedUriError {
    /// There is no key.
    #[error("the uri of a pool with a user or password is stored encrypted; set message_encryption_key in [transport]")]
    NoKey,
    /// The URI was encrypted with a key that this process does not have.
    #[error("the uri of the pool is encrypted with a key that is not configured; add it to message_decryption_keys")]
    OtherKey,
    /// The URI was changed in the store.
    #[error("the uri of the pool was damaged in the store")]
    Damaged,
}

impl StoredPool {
    /// Prepares a pool to be stored, with its complete URI.
    ///
    /// # Errors
    ///
    /// [`SealedUriError::NoKey`] if the URI must be encrypted and there is no cipher.
    pub fn new(pool: Pool, cipher: Option<&dyn UriCipher>) -> Result<Self, SealedUriError> {
        if !pool.uri.has_credentials() {
            return Ok(Self { pool, sealed_uri: None, is_closed: false });
        }
        let sealed_uri = cipher.ok_or(SealedUriError::NoKey)?.seal(&pool.name, &pool.uri);
        let uri = pool.uri.masked();
        Ok(Self { pool: Pool { uri, ..pool }, sealed_uri: Some(sealed_uri.into()), is_closed: false })
    }

    /// Returns the complete URI.
    pub fn uri(&self, cipher: Option<&dyn UriCipher>) -> Result<PoolUri, SealedUriError> {
        match &self.sealed_uri {
            None => Ok(self.pool.uri.clone()),
            Some(sealed) => cipher.ok_or(SealedUriError::NoKey)?.open(&self.pool.name, sealed),
        }
    }
}

impl PoolsVersion {
    /// Returns a version that no list has had.
    pub(super) fn random() -> Self {
        Self(Bytes::copy_from_slice(Uuid::new_v4().as_bytes()))
    }
}

/// The stored form of a list, without its version, as JSON.
#[derive(Serialize, Deserialize)]
struct ListForm {
    pools: Vec<PoolForm>,
    flavors: Vec<FlavorForm>,
}

#[derive(Serialize, Deserialize)]
struct PoolForm {
    name: String,
    uri: String,
    /// In base64.
    sealed_uri: Option<String>,
    weight: u32,
    flavor: Option<String>,
    options: Map<String, Value>,
    is_retired: bool,
    is_closed: bool,
}

#[derive(Serialize, Deserialize)]
struct FlavorForm {
    project: String,
    name: String,
}

/// Encodes a list without its version.
pub(super) fn encode(list: &PoolList) -> Vec<u8> {
    let pools = list.pools.iter().map(PoolForm::of).collect();
    let flavor = |flavor: &Flavor| FlavorForm { project: flavor.project.to_string(), name: flavor.name.to_string() };
    let flavors = list.flavors.iter().map(flavor).collect();
    serde_json::to_vec(&ListForm { pools, flavors }).expect("texts and numbers are JSON")
}

/// Decodes a list that has this version.
pub(super) fn decode(version: Bytes, bytes: &[u8]) -> Result<PoolList, Error> {
    let invalid = |reason: String| Error::Corrupt(format!("the list of pools is invalid: {reason}"));
    let form: ListForm = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
    let pools = form.pools.into_iter().map(PoolForm::read).collect::<Option<_>>();
    let flavors = form.flavors.into_iter().map(FlavorForm::read).collect::<Option<_>>();
    let (Some(pools), Some(flavors)) = (pools, flavors) else { return Err(invalid("a field is invalid".to_owned())) };
    Ok(PoolList { version: Some(PoolsVersion(version)), pools, flavors })
}

impl PoolForm {
    fn of(stored: &StoredPool) -> Self {
        let StoredPool { pool, sealed_uri, is_closed } = stored;
        Self {
            name: pool.name.to_string(),
            uri: pool.uri.reveal().to_owned(),
            sealed_uri: sealed_uri.as_ref().map(|sealed| BASE64_STANDARD.encode(sealed)),
            weight: pool.weight,
            flavor: pool.flavor.as_ref().map(ToString::to_string),
            options: pool.options.clone(),
            is_retired: pool.is_retired,
            is_closed: *is_closed,
        }
    }

    fn read(self) -> Option<StoredPool> {
        let Self { weight, options, is_retired, is_closed, .. } = self;
        let flavor = self.flavor.map(|flavor| flavor.parse()).transpose().ok()?;
        let pool =
            Pool { name: self.name.parse().ok()?, uri: self.uri.parse().ok()?, weight, flavor, options, is_retired };
        let sealed_uri = self.sealed_uri.map(|sealed| BASE64_STANDARD.decode(sealed)).transpose().ok()?;
        Some(StoredPool { pool, sealed_uri: sealed_uri.map(Bytes::from), is_closed })
    }
}

impl FlavorForm {
    fn read(self) -> Option<Flavor> {
        Some(Flavor { project: ProjectId::new(&self.project)?, name: self.name.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pool(uri: &str) -> Pool {
        let options = json!({ "é": [1, 2.5] }).as_object().unwrap().clone();
        let flavor = Some("fast".parse().unwrap());
        let (name, uri) = ("p.1".parse().unwrap(), uri.parse().unwrap());
        Pool { name, uri, weight: u32::MAX, flavor, options, is_retired: true }
    }

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let sealed = StoredPool {
            pool: pool("redis://***@h"),
            sealed_uri: Some(Bytes::from_static(b"\0\xff")),
            is_closed: true,
        };
        let plain = StoredPool::new(Pool { flavor: None, ..pool("redis://h/1") }, None).unwrap();
        let flavors = vec![Flavor { project: ProjectId::new("é\0").unwrap(), name: "fast".parse().unwrap() }];
        let version = PoolsVersion::random();
        let list = PoolList { version: Some(version.clone()), pools: vec![plain, sealed], flavors };
        let bytes = encode(&list);

        assert_eq!(decode(version.0, &bytes), Ok(list));
        decode(Bytes::new(), &bytes[1..]).unwrap_err();
    }

    #[test]
    fn a_uri_with_credentials_is_not_stored_without_a_key() {
        assert_eq!(StoredPool::new(pool("redis://u:p@h"), None), Err(SealedUriError::NoKey));
    }
}
