//! Encrypts everything that is stored with the first key again, so that the other keys can be
//! removed.
//!
//! It may run while processes use the store, and may be interrupted and repeated at any time: what
//! is encrypted with the first key already is left as it is. A message that moves to another queue
//! could be missed by one pass over all queues. So passes are repeated until one of them, which is
//! not the first, finds nothing to do.

use super::Cipher;
use super::cipher::CipherFailure;
use sukkal_domain::{Body, QueueId, QueueName};
use sukkal_storage::{Driver, Error, NameRange, QueueListing, StoredBody, UriCipher};

/// Maximum number of passes. More are needed only if a process goes on encrypting with another key.
const PASSES_MAX: u32 = 10;
/// Maximum number of unreadable bodies that are described.
const DESCRIBED_MAX: usize = 100;
const PROJECTS_PER_STEP: usize = 100;
const QUEUES_PER_STEP: usize = 100;

/// The result of one or several passes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rekeyed {
    /// Number of queues in the last pass.
    pub queues: u64,
    /// Number of encrypted bodies, and URIs of pools, in the last pass.
    pub encrypted: u64,
    /// Number of those that all passes have encrypted with the first key.
    pub rewritten: u64,
    /// Number of those in the last pass that none of the keys can decrypt.
    pub unreadable: u64,
    /// Descriptions of the first hundred of them.
    pub unreadable_bodies: Vec<String>,
    /// Whether all bodies that can be decrypted are encrypted with the first key.
    pub is_complete: bool,
}

/// Encrypts all bodies with the first key of the cipher. Calls `report` after each pass, with its
/// number and the result so far.
pub async fn rekey(
    store: &dyn Driver,
    cipher: &Cipher,
    report: impl Fn(u32, &Rekeyed) + Send + Sync,
) -> Result<Rekeyed, Error> {
    let mut result = Rekeyed::default();
    for pass in 1..=PASSES_MAX {
        let rewritten = result.rewritten;
        let found = run_pass(store, cipher, &mut result).await?;
        result.rewritten += rewritten;
        result.is_complete = pass > 1 && found == 0;
        report(pass, &result);
        if result.is_complete {
            break;
        }
    }
    Ok(result)
}

/// Visits all bodies. Returns the number of those that were encrypted with another key.
async fn run_pass(store: &dyn Driver, cipher: &Cipher, result: &mut Rekeyed) -> Result<u64, Error> {
    *result = Rekeyed::default();
    let (mut found, mut project) = (rekey_pools(store, cipher, result).await?, None);
    loop {
        let page = store.list_projects(project.as_ref(), PROJECTS_PER_STEP).await?;
        for (project, _) in page.projects {
            let mut after: Option<QueueName> = None;
            loop {
                let listing = QueueListing {
                    names: NameRange::after(after.as_ref()),
                    examined_max: QUEUES_PER_STEP,
                    ..QueueListing::default()
                };
                let queues = store.list_queues(&project, &listing).await?;
                for (name, _) in queues.queues {
                    // Every name in the store was accepted together with its project.
                    if let Ok(queue) = QueueId::new(project.clone(), name) {
                        found += rekey_queue(store, cipher, &queue, result).await?;
                    }
                }
                after = queues.reached;
                if after.is_none() {
                    break;
                }
            }
        }
        project = page.reached;
        if project.is_none() {
            return Ok(found);
        }
    }
}

/// Encrypts the URIs of pools. If another process changes the list meanwhile, the next pass does
/// it.
async fn rekey_pools(store: &dyn Driver, cipher: &Cipher, result: &mut Rekeyed) -> Result<u64, Error> {
    let mut list = store.load_pools(None).await?.unwrap_or_default();
    let (version, mut found) = (list.version.clone(), 0);
    for stored in &mut list.pools {
        let Some(sealed) = &stored.sealed_uri else { continue };
        result.encrypted += 1;
        if cipher.is_current(sealed) {
            continue;
        }
        match cipher.open(&stored.pool.name, sealed) {
            Ok(uri) => {
                found += 1;
                stored.sealed_uri = Some(cipher.seal(&stored.pool.name, &uri).into());
            }
            Err(error) => result.add_description(format!("pool {}: {error}", stored.pool.name)),
        }
    }
    if found > 0 && store.replace_pools(version.as_ref(), &list).await? {
        result.rewritten += found;
    }
    Ok(found)
}

async fn rekey_queue(store: &dyn Driver, cipher: &Cipher, queue: &QueueId, result: &mut Rekeyed) -> Result<u64, Error> {
    result.queues += 1;
    let (mut found, mut position) = (0, None);
    loop {
        let page = store.list_sealed(queue, position.as_ref()).await?;
        let mut replacements = Vec::new();
        for stored in page.bodies {
            result.encrypted += 1;
            match reencrypted(cipher, queue, &stored) {
                Ok(None) => {}
                Ok(Some(body)) => {
                    found += 1;
                    replacements.extend(stored.replaced_by(&body));
                }
                Err(failure) => result.add_unreadable(queue, &stored, failure),
            }
        }
        if !replacements.is_empty() {
            result.rewritten += store.replace_sealed(queue, &replacements).await?;
        }
        position = page.next;
        if position.is_none() {
            return Ok(found);
        }
    }
}

fn reencrypted(cipher: &Cipher, queue: &QueueId, stored: &StoredBody) -> Result<Option<Body>, CipherFailure> {
    let body = stored.body();
    let encrypted = cipher.reencrypt(queue.project(), body.as_sealed().unwrap_or_default())?;
    Ok(encrypted.and_then(|encrypted| Body::sealed(&encrypted)))
}

impl Rekeyed {
    fn add_unreadable(&mut self, queue: &QueueId, stored: &StoredBody, failure: CipherFailure) {
        let reason = match failure {
            CipherFailure::OtherKey => "is encrypted with a key that is not configured",
            CipherFailure::Damaged => "was damaged in the store",
        };
        self.add_description(format!("{queue}: {} {reason}", stored.subject(queue)));
    }

    fn add_description(&mut self, description: String) {
        self.unreadable += 1;
        if self.unreadable_bodies.len() < DESCRIBED_MAX {
            self.unreadable_bodies.push(description);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use sukkal_domain::{Pool, PoolUri};
    use sukkal_storage::embedded::EmbeddedStore;
    use sukkal_storage::{PoolList, PoolStore, StoredPool};

    #[tokio::test]
    async fn the_uris_of_pools_are_encrypted_with_the_first_key() {
        let [lost, old, new] = ["lost", "old", "new"].map(Cipher::new);
        let uri: PoolUri = "redis://u:p@h".parse().unwrap();
        let stored = |name: &str, cipher: &Cipher| {
            let (name, uri) = (name.parse().unwrap(), uri.clone());
            let pool = Pool { name, uri, weight: 1, flavor: None, options: Map::new(), is_retired: true };
            StoredPool::new(pool, Some(cipher)).unwrap()
        };
        let store = EmbeddedStore::in_memory().unwrap();
        let pools = vec![stored("a", &old), stored("b", &new), stored("c", &lost)];
        assert!(store.replace_pools(None, &PoolList { pools, ..PoolList::default() }).await.unwrap());

        let both = Cipher::new("new").accepting(["old"]);
        let result = rekey(&store, &both, |_, _| {}).await.unwrap();

        let pools = store.load_pools(None).await.unwrap().unwrap().pools;
        assert_eq!(pools[0].uri(Some(&new)), Ok(uri.clone()));
        assert_eq!(pools[1].uri(Some(&new)), Ok(uri.clone()));
        assert_eq!(pools[2].uri(Some(&lost)), Ok(uri));
        assert!(result.is_complete);
        assert_eq!((result.encrypted, result.rewritten, result.unreadable), (3, 1, 1));
        assert!(result.unreadable_bodies[0].starts_with("pool c: "), "{:?}", result.unreadable_bodies);
    }
}
