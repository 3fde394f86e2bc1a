//! The tenants that posted most recently to a fair queue, counted by the Space-Saving algorithm. A
//! new tenant takes over the smallest counter, so its count may be too high by the old value.

use bytes::{Buf, BufMut};

use crate::Error;
use crate::embedded::engine::error::damaged;
use sukkal_domain::Details;
use sukkal_domain::Tenant;

const COUNTERS_MAX: usize = 32;
/// When a counter reaches this value, all counters are halved, so that older posts weigh less.
const COUNT_MAX: u32 = 10_000;
/// Time after the last post, in microseconds, when all tenants are forgotten.
const KEPT_US: u64 = 3_600 * 1_000_000;

/// The counters of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tenants {
    last_post_us: u64,
    counters: Vec<(u32, Tenant)>,
}

impl Tenants {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.put_u64(self.last_post_us);
        for (count, tenant) in &self.counters {
            let name = tenant.as_str().as_bytes();
            bytes.put_u32(*count);
            bytes.put_u16(u16::try_from(name.len()).expect("a tenant's name is short"));
            bytes.put_slice(name);
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let decoded = || {
            let mut bytes = bytes;
            let last_post_us = bytes.try_get_u64().ok()?;
            let mut counters = Vec::new();
            while bytes.has_remaining() {
                let (count, length) = (bytes.try_get_u32().ok()?, bytes.try_get_u16().ok()?);
                let (name, rest) = bytes.split_at_checked(length.into())?;
                counters.push((count, Tenant::from_store(str::from_utf8(name).ok()?)));
                bytes = rest;
            }
            Some(Self { last_post_us, counters })
        };
        decoded().ok_or_else(|| damaged("the tenants of a queue"))
    }

    /// Counts messages that are posted now.
    pub(crate) fn count_at<'a>(&mut self, now_us: u64, tenants: impl Iterator<Item = &'a Tenant>) {
        if self.is_expired(now_us) {
            self.counters.clear();
        }
        self.last_post_us = now_us;
        let mut tenants: Vec<&Tenant> = tenants.collect();
        tenants.sort_unstable();
        for of_one in tenants.chunk_by(|one, other| one == other) {
            self.count(of_one[0], u32::try_from(of_one.len()).unwrap_or(COUNT_MAX));
        }
    }

    fn count(&mut self, tenant: &Tenant, messages: u32) {
        let known = self.counters.iter().position(|(_, known)| known == tenant);
        let at = known.unwrap_or_else(|| self.new_counter(tenant));
        let count = &mut self.counters[at].0;
        *count = count.saturating_add(messages);
        if *count >= COUNT_MAX {
            self.counters.iter_mut().for_each(|(count, _)| *count /= 2);
        }
    }

    /// Returns the counter for a new tenant: the smallest one, with its value, if there are no
    /// more.
    fn new_counter(&mut self, tenant: &Tenant) -> usize {
        let least = (0..self.counters.len()).min_by_key(|at| &self.counters[*at]);
        if let Some(least) = least.filter(|_| self.counters.len() == COUNTERS_MAX) {
            self.counters[least].1 = tenant.clone();
            return least;
        }
        self.counters.push((0, tenant.clone()));
        self.counters.len() - 1
    }

    fn is_expired(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.last_post_us) >= KEPT_US
    }

    /// Returns when all tenants are forgotten (µs), and the counters.
    pub(crate) fn end_and_counters(self) -> (u64, Vec<(u32, Tenant)>) {
        (self.last_post_us.saturating_add(KEPT_US), self.counters)
    }

    /// Returns each tenant's share of the counted messages, largest first.
    pub(crate) fn shares(self, now_us: u64) -> Vec<(Tenant, f64)> {
        if self.is_expired(now_us) {
            return Vec::new();
        }
        Details::shares(self.counters.into_iter().map(|(count, tenant)| (tenant, count.into())).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Tenant {
        Tenant::new(name).unwrap()
    }

    fn posted(posts: &[(&str, usize)]) -> Tenants {
        let mut tenants = Tenants::default();
        for (name, count) in posts {
            tenants.count_at(1, vec![&tenant(name); *count].into_iter());
        }
        tenants
    }

    fn names(tenants: Tenants) -> Vec<String> {
        tenants.shares(1).into_iter().map(|(tenant, _)| tenant.to_string()).collect()
    }

    #[test]
    fn shares_are_sorted_by_size_and_then_by_name() {
        let tenants = posted(&[("b", 1), ("c", 2), ("a", 1)]);

        assert_eq!(tenants.shares(1), [(tenant("c"), 0.5), (tenant("a"), 0.25), (tenant("b"), 0.25)]);
    }

    #[test]
    fn a_new_tenant_takes_over_the_smallest_counter() {
        let others: Vec<String> = (10..40).map(|at| format!("t{at}")).collect();
        let mut posts: Vec<(&str, usize)> = others.iter().map(|name| (name.as_str(), 5)).collect();
        posts.extend([("z", 2), ("y", 2), ("new", 1)]);

        let tenants = posted(&posts);

        assert_eq!(tenants.counters.len(), COUNTERS_MAX);
        assert!(tenants.counters.contains(&(3, tenant("new"))) && tenants.counters.contains(&(2, tenant("z"))));
        assert!(!names(tenants).contains(&"y".to_owned()));
    }

    #[test]
    fn all_counters_are_halved_at_the_maximum() {
        let tenants = posted(&[("a", 9_999), ("b", 10), ("a", 1)]);

        assert_eq!(tenants.counters, [(5_000, tenant("a")), (5, tenant("b"))]);
    }

    #[test]
    fn tenants_are_forgotten_an_hour_after_the_last_post() {
        let mut tenants = posted(&[("a", 1)]);
        assert_eq!(tenants.clone().shares(KEPT_US).len(), 1);
        assert_eq!(tenants.clone().shares(KEPT_US + 1), []);

        tenants.count_at(KEPT_US + 1, [&tenant("b")].into_iter());

        assert_eq!(tenants.shares(KEPT_US + 1), [(tenant("b"), 1.0)]);
    }

    #[test]
    fn tenants_are_read_as_they_were_written() {
        let tenants = posted(&[("a", 1), (&"é".repeat(128), 70_000)]);

        assert_eq!(Tenants::decode(&tenants.encode()).unwrap(), tenants);
        assert!(Tenants::decode(&tenants.encode()[..20]).is_err());
    }
}
