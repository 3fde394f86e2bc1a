//! Fair queues: a queue's messages stand in shards, each tenant's in a few of them, and the shards are served in turn.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::ClientId;
use super::client::Poster;

/// The most shards that a queue has.
pub const SHARDS_MAX: u16 = 1024;
/// How many shards a tenant has in a queue that does not say, and has as many.
pub const SHARDS_PER_TENANT: u16 = 4;
/// The longest name of a tenant, in characters.
pub const TENANT_CHARS_MAX: usize = 128;
/// How many of its tenant's shards are looked at for a message: with all, a post of 1,000 messages would look at a million.
const CANDIDATES_MAX: usize = 16;

/// One of a queue's shards, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard(u16);

/// Whom messages are posted for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tenant(Arc<str>);

/// How a fair queue is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    shards: u16,
    per_tenant: u16,
}

/// A tenant with the shards that it has drawn, in the order of drawing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lot {
    /// Who has drawn.
    pub tenant: Tenant,
    /// What; at least one, and none twice.
    pub shards: Vec<Shard>,
}

impl Lot {
    /// The shards that a post chooses from, in the order of drawing: all, or `CANDIDATES_MAX` of them, others at each post.
    pub fn candidates(&self) -> impl Iterator<Item = &Shard> {
        let count = self.shards.len().min(CANDIDATES_MAX);
        let first = if count < self.shards.len() { fastrand::usize(..self.shards.len()) } else { 0 };
        self.shards.iter().cycle().skip(first).take(count)
    }
}

/// Why a text names no tenant.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("a tenant is a text of 1 to {TENANT_CHARS_MAX} characters")]
pub struct InvalidTenant;

impl Shard {
    /// The shard of that number, if a queue can have it.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (number < SHARDS_MAX).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

impl Tenant {
    /// The tenant of that name.
    pub fn new(name: &str) -> Result<Self, InvalidTenant> {
        let chars = name.chars().count();
        if (1..=TENANT_CHARS_MAX).contains(&chars) { Ok(Self(name.into())) } else { Err(InvalidTenant) }
    }

    /// The tenant of that name, which was one before.
    #[must_use]
    pub fn from_store(name: &str) -> Self {
        Self(name.into())
    }

    /// Who posts, as a tenant.
    #[must_use]
    pub fn of_client(client: &ClientId) -> Self {
        Self(client.as_str().into())
    }

    /// Who has posted a message of which nobody remembers more, as a tenant: the poster's bytes in hexadecimal.
    #[must_use]
    pub fn of_poster(poster: Poster) -> Self {
        Self(format!("{:016x}", u64::from_be_bytes(*poster.as_bytes())).into())
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Tenant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Sharding {
    /// So many shards, so many of which a tenant has; `None` unless there are two at least, and as many as a tenant has.
    #[must_use]
    pub fn new(shards: u16, per_tenant: u16) -> Option<Self> {
        let is_one = (2..=SHARDS_MAX).contains(&shards) && (1..=shards).contains(&per_tenant);
        is_one.then_some(Self { shards, per_tenant })
    }

    /// How many shards the queue has.
    #[must_use]
    pub fn shards(self) -> u16 {
        self.shards
    }

    /// How many of them a tenant has.
    #[must_use]
    pub fn per_tenant(self) -> u16 {
        self.per_tenant
    }

    /// The shards of a tenant, by a function that `docs/fair-queues.md` describes for everybody: a Fisher–Yates
    /// shuffle of all shards that stops when it has drawn enough, with SHA-256 for chance.
    #[must_use]
    pub fn draw(self, tenant: &Tenant) -> Lot {
        let mut chance = Chance::new(tenant);
        // Where the shuffle has put another shard than the one of that number.
        let mut moved: HashMap<u16, u16> = HashMap::new();
        let draw = |place: u16| {
            let left = self.shards - place;
            let other = place + u16::try_from(chance.next() % u64::from(left)).expect("it is less than a u16");
            let drawn = moved.get(&other).copied().unwrap_or(other);
            let here = moved.get(&place).copied().unwrap_or(place);
            moved.insert(other, here);
            Shard(drawn)
        };
        Lot { shards: (0..self.per_tenant).map(draw).collect(), tenant: tenant.clone() }
    }
}

/// Numbers of 64 bits that follow from a tenant's name: those of SHA-256 over a block's number (`u32`, from 0) and the
/// name, four to a block, all big-endian.
struct Chance<'a> {
    tenant: &'a Tenant,
    block: u32,
    numbers: std::vec::IntoIter<u64>,
}

impl<'a> Chance<'a> {
    fn new(tenant: &'a Tenant) -> Self {
        Self { tenant, block: 0, numbers: Vec::new().into_iter() }
    }

    fn next(&mut self) -> u64 {
        if let Some(number) = self.numbers.next() {
            return number;
        }
        let digest = Sha256::new().chain_update(self.block.to_be_bytes()).chain_update(self.tenant.as_str()).finalize();
        let (numbers, _) = digest.as_chunks();
        self.block += 1;
        self.numbers = numbers.iter().map(|number| u64::from_be_bytes(*number)).collect::<Vec<_>>().into_iter();
        self.numbers.next().expect("a digest has four numbers")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn draw(tenant: &str, shards: u16, per_tenant: u16) -> Vec<u16> {
        let lot = Sharding::new(shards, per_tenant).unwrap().draw(&Tenant::new(tenant).unwrap());
        lot.shards.into_iter().map(Shard::number).collect()
    }

    /// The same function as it is described, by a shuffle in a list.
    fn shuffled(tenant: &str, shards: u16, per_tenant: u16) -> Vec<u16> {
        let mut all: Vec<u16> = (0..shards).collect();
        for place in 0..usize::from(per_tenant) {
            let block = u32::try_from(place / 4).unwrap();
            let digest = Sha256::digest([&block.to_be_bytes(), tenant.as_bytes()].concat());
            let number = u64::from_be_bytes(digest[8 * (place % 4)..][..8].try_into().unwrap());
            let left = u64::from(shards) - place as u64;
            all.swap(place, place + usize::try_from(number % left).unwrap());
        }
        all.truncate(per_tenant.into());
        all
    }

    proptest! {
        #[test]
        fn a_tenant_draws_what_the_description_says(
            tenant in "\\PC{1,128}",
            (shards, per_tenant) in (2..=SHARDS_MAX).prop_flat_map(|shards| (Just(shards), 1..=shards)),
        ) {
            let drawn = draw(&tenant, shards, per_tenant);

            prop_assert_eq!(&drawn, &shuffled(&tenant, shards, per_tenant));
            let mut unique = drawn.clone();
            unique.sort_unstable();
            unique.dedup();
            prop_assert_eq!(unique.len(), usize::from(per_tenant));
            prop_assert!(unique.iter().all(|shard| *shard < shards));
        }
    }

    #[test]
    fn a_tenant_is_a_short_text() {
        assert!(Tenant::new(&"é".repeat(TENANT_CHARS_MAX)).is_ok());
        assert_eq!(Tenant::new(&"é".repeat(TENANT_CHARS_MAX + 1)), Err(InvalidTenant));
        assert_eq!(Tenant::new(""), Err(InvalidTenant));
    }

    #[test]
    fn tenants_are_spread_over_all_shards() {
        let mut tenants = [0_u32; 64];
        for tenant in 0..4_000 {
            for shard in draw(&format!("tenant {tenant}"), 64, 4) {
                tenants[usize::from(shard)] += 1;
            }
        }

        // 250 each, give or take five standard deviations.
        assert!(tenants.iter().all(|count| (172..328).contains(count)), "{tenants:?}");
    }
}
