//! The rates of projects, as token buckets of this process. A bucket holds the tokens of one second.
//!
//! A bucket is stored as the time at which it will be full. So taking tokens is one addition, and a
//! bucket that is full needs no memory: if the cache drops it, the next one begins full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache;

use crate::domain::{ProjectId, Quota};

/// Maximum number of projects whose buckets a process keeps. Of further ones, the least used begin
/// with full buckets again.
const PROJECTS_MAX: usize = 20_000;
const SECOND_NS: u64 = 1_000_000_000;

/// The buckets of all projects.
#[derive(Debug)]
pub(super) struct Rates {
    start: Instant,
    projects: Cache<ProjectId, Arc<Buckets>>,
}

/// The buckets of one project.
#[derive(Debug, Default)]
struct Buckets {
    requests: Bucket,
    posted_bytes: Bucket,
}

/// The time at which the bucket will be full, in nanoseconds since the start of the process.
#[derive(Debug, Default)]
struct Bucket(AtomicU64);

impl Rates {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), projects: Cache::new(PROJECTS_MAX) }
    }

    /// Takes tokens of a bucket with this rate. If it does not have them, returns the time until it
    /// will. More tokens than those of one second can be taken from a full bucket, which is then in
    /// debt.
    pub(super) fn take(&self, project: &ProjectId, quota: Quota, tokens: u64, rate: u64) -> Result<(), Duration> {
        let now_ns = self.now_ns();
        self.with_bucket(project, quota, |bucket| bucket.take(now_ns, cost_ns(tokens, rate)))
    }

    /// Takes tokens even if the bucket does not have them.
    pub(super) fn charge(&self, project: &ProjectId, quota: Quota, tokens: u64, rate: u64) {
        let now_ns = self.now_ns();
        self.with_bucket(project, quota, |bucket| bucket.charge(now_ns, cost_ns(tokens, rate)));
    }

    /// Returns how many tokens a bucket with this rate lacks: those that were taken in the last
    /// second, if it was full before.
    pub(super) fn used(&self, project: &ProjectId, quota: Quota, rate: u64) -> u64 {
        let now_ns = self.now_ns();
        let lack_ns = self.with_bucket(project, quota, |bucket| bucket.lack_ns(now_ns));
        (u128::from(lack_ns) * u128::from(rate)).div_ceil(SECOND_NS.into()).try_into().unwrap_or(u64::MAX)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("the process is younger than 500 years")
    }

    fn with_bucket<T>(&self, project: &ProjectId, quota: Quota, work: impl FnOnce(&Bucket) -> T) -> T {
        let buckets = match self.projects.get(project) {
            Some(buckets) => buckets,
            None => self
                .projects
                .get_or_insert_with(project, || Ok::<_, std::convert::Infallible>(Arc::default()))
                .unwrap_or_else(|never| match never {}),
        };
        work(if quota == Quota::PostedBytesPerSecond { &buckets.posted_bytes } else { &buckets.requests })
    }
}

/// Returns the time in which a bucket with this rate gets the tokens, in nanoseconds.
fn cost_ns(tokens: u64, rate: u64) -> u64 {
    (u128::from(tokens) * u128::from(SECOND_NS) / u128::from(rate)).try_into().unwrap_or(u64::MAX)
}

impl Bucket {
    fn take(&self, now_ns: u64, cost_ns: u64) -> Result<(), Duration> {
        let mut full_at_ns = self.0.load(Ordering::Relaxed);
        loop {
            let lack_ns = full_at_ns.saturating_sub(now_ns);
            let wait_ns = (lack_ns + cost_ns.min(SECOND_NS)).saturating_sub(SECOND_NS);
            if wait_ns > 0 {
                return Err(Duration::from_nanos(wait_ns));
            }
            let next = full_at_ns.max(now_ns).saturating_add(cost_ns);
            match self.0.compare_exchange_weak(full_at_ns, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(()),
                Err(current) => full_at_ns = current,
            }
        }
    }

    fn charge(&self, now_ns: u64, cost_ns: u64) {
        let add = |full_at_ns: u64| Some(full_at_ns.max(now_ns).saturating_add(cost_ns));
        let _before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Returns the time until the bucket is full, in nanoseconds.
    fn lack_ns(&self, now_ns: u64) -> u64 {
        self.0.load(Ordering::Relaxed).saturating_sub(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u64 = 10;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn a_bucket_has_the_tokens_of_one_second_and_is_refilled_at_its_rate() {
        let (bucket, now_ns) = (Bucket::default(), 5 * SECOND_NS);
        let one = cost_ns(1, RATE);

        for _ in 0..RATE {
            bucket.take(now_ns, one).unwrap();
        }
        assert_eq!(bucket.take(now_ns, one), Err(seconds(1) / 10));
        assert_eq!(bucket.take(now_ns, cost_ns(5, RATE)), Err(seconds(1) / 2));
        bucket.take(now_ns + one, one).unwrap();
        bucket.take(now_ns + one, one).unwrap_err();
        bucket.take(now_ns + 100 * SECOND_NS, cost_ns(RATE, RATE)).unwrap();
        bucket.take(now_ns + 100 * SECOND_NS, one).unwrap_err();
    }

    #[test]
    fn a_request_larger_than_a_bucket_waits_until_it_is_full_and_leaves_a_debt() {
        let (bucket, now_ns) = (Bucket::default(), SECOND_NS);
        bucket.take(now_ns, cost_ns(1, RATE)).unwrap();

        assert_eq!(bucket.take(now_ns, cost_ns(30, RATE)), Err(seconds(1) / 10));
        bucket.take(2 * now_ns, cost_ns(30, RATE)).unwrap();
        assert_eq!(bucket.take(2 * now_ns, cost_ns(1, RATE)), Err(seconds(2) + seconds(1) / 10));
    }

    #[test]
    fn a_charge_is_never_refused() {
        let bucket = Bucket::default();

        for _ in 0..2 {
            bucket.charge(0, cost_ns(20, RATE));
        }
        bucket.charge(0, 0);

        assert_eq!(bucket.take(0, 0), Err(seconds(3)));
        bucket.charge(0, u64::MAX);
        bucket.charge(0, u64::MAX);
    }

    #[test]
    fn each_project_and_each_rate_has_its_own_bucket() {
        let rates = Rates::new();
        let [busy, other] = ["busy", "other"].map(|name| ProjectId::new(name).unwrap());
        rates.take(&busy, Quota::RequestsPerSecond, 1, 1).unwrap();

        rates.take(&busy, Quota::RequestsPerSecond, 1, 1).unwrap_err();
        rates.take(&busy, Quota::PostedBytesPerSecond, 1, 1).unwrap();
        rates.take(&other, Quota::RequestsPerSecond, 1, 1).unwrap();
        assert_eq!(rates.used(&busy, Quota::RequestsPerSecond, 1), 1);
    }
}
