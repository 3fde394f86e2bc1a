//! Fair queues: messages are divided into shards, and claims serve the shards in rotation. Each
//! tenant is assigned a few of the shards, so that a busy tenant delays few others.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::ClientId;
use super::client::Poster;
use super::shared_text::shared_text;

/// Maximum number of shards of a queue.
pub const SHARDS_MAX: u16 = 1024;
/// Default number of shards assigned to a tenant, if the queue has that many.
pub const SHARDS_PER_TENANT_DEFAULT: u16 = 4;
/// Maximum length of a tenant's name, in characters.
pub const TENANT_CHARS_MAX: usize = 128;
/// Maximum number of shards that a post compares for one message. If it compared all shards of the
/// tenant, a post of 1,000 messages would read a million counts.
const CANDIDATES_MAX: usize = 16;

/// Number of a shard within its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(u16);

/// Name of the tenant of a fair queue for which a message is posted.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

/// Division of a fair queue into shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    shards: u16,
    per_tenant: u16,
}

/// The shards assigned to a tenant, in the order of the shuffle that has chosen them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShardAssignment {
    /// The tenant.
    pub tenant: Tenant,
    /// The shards; at least one, without duplicates.
    pub shards: Vec<Shard>,
}

impl ShardAssignment {
    /// Returns the shards among which a post chooses for one message, in their order. With more
    /// than `CANDIDATES_MAX` shards, returns that many, starting at a random one.
    pub fn candidates(&self) -> impl Iterator<Item = &Shard> {
        let count = self.shards.len().min(CANDIDATES_MAX);
        let first = if count < self.shards.len() { fastrand::usize(..self.shards.len()) } else { 0 };
        self.shards.iter().cycle().skip(first).take(count)
    }
}

/// The text is not a valid tenant name.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a tenant is a text of 1 to {TENANT_CHARS_MAX} characters")]
pub struct InvalidTenant;

impl Shard {
    /// Returns the shard with this number, or `None` if the number is too large for any queue.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (number < SHARDS_MAX).then_some(Self(number))
    }

    /// Returns the number of the shard.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

impl Tenant {
    /// Returns the tenant with this name.
    ///
    /// # Errors
    ///
    /// [`InvalidTenant`] if the name is empty or too long.
    pub fn new(name: &str) -> Result<Self, InvalidTenant> {
        let chars = name.chars().count();
        if (1..=TENANT_CHARS_MAX).contains(&chars) { Ok(Self(name.into())) } else { Err(InvalidTenant) }
    }

    /// Returns the tenant with a name that was validated before it was stored.
    #[must_use]
    pub fn from_store(name: &str) -> Self {
        Self(name.into())
    }

    /// Returns the tenant of a client that names none in its posts: the client id is the name.
    #[must_use]
    pub fn of_client(client: &ClientId) -> Self {
        Self(client.as_str().into())
    }

    /// Returns the tenant of a message of which only the poster is known. Its name is the poster's
    /// bytes in hexadecimal.
    #[must_use]
    pub fn of_poster(poster: Poster) -> Self {
        Self(format!("{:016x}", u64::from_be_bytes(*poster.as_bytes())).into())
    }
}

shared_text!(Tenant);

impl Sharding {
    /// Divides a queue into `shards`, of which `per_tenant` are assigned to each tenant.
    ///
    /// Returns `None` unless there are 2 to [`SHARDS_MAX`] shards, and 1 to `shards` of them per
    /// tenant.
    #[must_use]
    pub fn new(shards: u16, per_tenant: u16) -> Option<Self> {
        let is_valid = (2..=SHARDS_MAX).contains(&shards) && (1..=shards).contains(&per_tenant);
        is_valid.then_some(Self { shards, per_tenant })
    }

    /// Returns the number of shards of the queue.
    #[must_use]
    pub fn shards(self) -> u16 {
        self.shards
    }

    /// Returns the number of shards assigned to each tenant.
    #[must_use]
    pub fn per_tenant(self) -> u16 {
        self.per_tenant
    }

    /// Returns the shards of a tenant.
    ///
    /// The function is a Fisher–Yates shuffle of all shards that stops after `per_tenant` of them,
    /// with random numbers from SHA-256. `docs/fair-queues.md` describes it, so that clients can
    /// compute the same assignment.
    #[must_use]
    pub fn assign(self, tenant: &Tenant) -> ShardAssignment {
        let mut numbers = hash_numbers(tenant);
        // Positions at which the shuffle has put another shard than the one with the position's
        // number.
        let mut moved: HashMap<u16, u16> = HashMap::new();
        let assign = |position: u16| {
            let left = self.shards - position;
            let number = numbers.next().expect("they do not end");
            let other = position + u16::try_from(number % u64::from(left)).expect("it is less than a u16");
            let assigned = moved.get(&other).copied().unwrap_or(other);
            let here = moved.get(&position).copied().unwrap_or(position);
            moved.insert(other, here);
            Shard(assigned)
        };
        ShardAssignment { shards: (0..self.per_tenant).map(assign).collect(), tenant: tenant.clone() }
    }
}

/// Returns 64-bit numbers that are derived from a tenant's name. Each block of four numbers is the
/// SHA-256 hash of the block's number (`u32`, from 0) and the name, all big-endian.
fn hash_numbers(tenant: &Tenant) -> impl Iterator<Item = u64> {
    (0_u32..).flat_map(|block| {
        let digest = Sha256::new().chain_update(block.to_be_bytes()).chain_update(tenant.as_str()).finalize();
        <[u8; 32]>::from(digest).as_chunks().0.iter().map(|number| u64::from_be_bytes(*number)).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn assign(tenant: &str, shards: u16, per_tenant: u16) -> Vec<u16> {
        let assignment = Sharding::new(shards, per_tenant).unwrap().assign(&Tenant::new(tenant).unwrap());
        assignment.shards.into_iter().map(Shard::number).collect()
    }

    /// The assignment as `docs/fair-queues.md` describes it: a shuffle of a list of all shards.
    fn shuffled(tenant: &str, shards: u16, per_tenant: u16) -> Vec<u16> {
        let mut all: Vec<u16> = (0..shards).collect();
        for position in 0..usize::from(per_tenant) {
            let block = u32::try_from(position / 4).unwrap();
            let digest = Sha256::digest([&block.to_be_bytes(), tenant.as_bytes()].concat());
            let number = u64::from_be_bytes(digest[8 * (position % 4)..][..8].try_into().unwrap());
            let left = u64::from(shards) - position as u64;
            all.swap(position, position + usize::try_from(number % left).unwrap());
        }
        all.truncate(per_tenant.into());
        all
    }

    proptest! {
        #[test]
        fn an_assignment_follows_its_description(
            tenant in "\\PC{1,128}",
            (shards, per_tenant) in (2..=SHARDS_MAX).prop_flat_map(|shards| (Just(shards), 1..=shards)),
        ) {
            let assigned = assign(&tenant, shards, per_tenant);

            prop_assert_eq!(&assigned, &shuffled(&tenant, shards, per_tenant));
            let mut unique = assigned.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), usize::from(per_tenant));
            prop_assert!(unique.iter().all(|shard| *shard < shards));
        }
    }

    #[test]
    fn a_tenant_name_has_1_to_128_characters() {
        assert!(Tenant::new(&"é".repeat(TENANT_CHARS_MAX)).is_ok());
        assert_eq!(Tenant::new(&"é".repeat(TENANT_CHARS_MAX + 1)), Err(InvalidTenant));
        assert_eq!(Tenant::new(""), Err(InvalidTenant));
    }

    #[test]
    fn tenants_are_spread_evenly_over_all_shards() {
        let mut tenants = [0_u32; 64];
        for tenant in 0..4_000 {
            for shard in assign(&format!("tenant {tenant}"), 64, 4) {
                tenants[usize::from(shard)] += 1;
            }
        }

        // The mean is 250; the range is about five standard deviations to each side.
        assert!(tenants.iter().all(|count| (172..328).contains(count)), "{tenants:?}");
    }
}
