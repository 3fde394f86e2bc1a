//! The rates of projects, as token buckets of this process. A bucket holds the tokens of one
//! second.
//!
//! A bucket is stored as the time at which it will be full. So taking tokens is one addition, and a
//! bucket that is full needs no memory: the next one begins full. Only full buckets are dropped. So
//! no client can give another project new tokens by naming many projects.

use std::time::{Duration, Instant};

use ahash::HashMap;
use parking_lot::Mutex;

use sukkal_domain::{ProjectId, Quota};

/// Approximate maximum of the memory for buckets, in bytes.
const BYTES_MAX: usize = 8 * 1024 * 1024;
/// Approximate memory for the buckets of a project, in bytes, without the name of the project.
const BYTES_PER_PROJECT: usize = 160;
/// Maximum number of buckets that are examined to make room for a project.
const EXAMINED_MAX: usize = 16;
const SECOND_NS: u64 = 1_000_000_000;

/// The buckets of all projects.
#[derive(Debug)]
pub(super) struct Rates {
    start: Instant,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// The places of the projects in `entries`.
    places: HashMap<ProjectId, usize>,
    entries: Vec<(ProjectId, Buckets)>,
    /// Memory for the entries, in bytes.
    bytes: usize,
    /// The place that is examined next to make room.
    next: usize,
    /// The buckets that projects share if no other project can be dropped for them.
    shared: Buckets,
}

/// The buckets of one project.
#[derive(Debug, Default)]
struct Buckets {
    requests: Bucket,
    posted_bytes: Bucket,
}

/// The time at which the bucket will be full, in nanoseconds since the start of the process.
#[derive(Debug, Default)]
struct Bucket(u64);

impl Rates {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), table: Mutex::default() }
    }

    /// Takes tokens of a bucket with this rate. If it does not have them, returns the time until it
    /// will. More tokens than those of one second can be taken from a full bucket, which is then in
    /// debt.
    pub(super) fn take(&self, project: &ProjectId, quota: Quota, tokens: u64, rate: u64) -> Result<(), Duration> {
        let now_ns = self.now_ns();
        self.table.lock().buckets(project, now_ns).of(quota).take(now_ns, cost_ns(tokens, rate))
    }

    /// Takes tokens even if the bucket does not have them.
    pub(super) fn charge(&self, project: &ProjectId, quota: Quota, tokens: u64, rate: u64) {
        let now_ns = self.now_ns();
        self.table.lock().buckets(project, now_ns).of(quota).charge(now_ns, cost_ns(tokens, rate));
    }

    /// Returns how many tokens a bucket with this rate lacks: those that were taken in the last
    /// second, if it was full before.
    pub(super) fn used(&self, project: &ProjectId, quota: Quota, rate: u64) -> u64 {
        let now_ns = self.now_ns();
        let lack_ns = self.table.lock().buckets(project, now_ns).of(quota).lack_ns(now_ns);
        (u128::from(lack_ns) * u128::from(rate)).div_ceil(SECOND_NS.into()).try_into().unwrap_or(u64::MAX)
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).expect("the process is younger than 500 years")
    }
}

impl Table {
    /// Returns the buckets of a project. If there is no room for them, these are the shared ones.
    fn buckets(&mut self, project: &ProjectId, now_ns: u64) -> &mut Buckets {
        let at = self.places.get(project).copied().or_else(|| self.insert(project, now_ns));
        match at {
            Some(at) => &mut self.entries[at].1,
            None => &mut self.shared,
        }
    }

    /// Adds full buckets for a project. Returns their place, or `None` if there is no room.
    fn insert(&mut self, project: &ProjectId, now_ns: u64) -> Option<usize> {
        let bytes_max = BYTES_MAX.saturating_sub(bytes_of(project));
        for _ in 0..EXAMINED_MAX {
            if self.bytes <= bytes_max {
                break;
            }
            self.examine_next(now_ns);
        }
        if self.bytes > bytes_max {
            return None;
        }
        let at = self.entries.len();
        self.bytes += bytes_of(project);
        self.places.insert(project.clone(), at);
        self.entries.push((project.clone(), Buckets::default()));
        Some(at)
    }

    /// Drops the buckets of the next project if they are full.
    fn examine_next(&mut self, now_ns: u64) {
        let at = if self.next < self.entries.len() { self.next } else { 0 };
        self.next = at + 1;
        if self.entries.get(at).is_some_and(|(_, buckets)| buckets.are_full(now_ns)) {
            let (dropped, _full) = self.entries.swap_remove(at);
            self.bytes -= bytes_of(&dropped);
            self.places.remove(&dropped);
            if let Some((moved, _)) = self.entries.get(at) {
                self.places.insert(moved.clone(), at);
            }
            // The last entry is at this place now.
            self.next = at;
        }
    }
}

fn bytes_of(project: &ProjectId) -> usize {
    BYTES_PER_PROJECT + project.as_str().len()
}

impl Buckets {
    fn of(&mut self, quota: Quota) -> &mut Bucket {
        if quota == Quota::PostedBytesPerSecond { &mut self.posted_bytes } else { &mut self.requests }
    }

    fn are_full(&self, now_ns: u64) -> bool {
        self.requests.lack_ns(now_ns) == 0 && self.posted_bytes.lack_ns(now_ns) == 0
    }
}

/// Returns the time in which a bucket with this rate gets the tokens, in nanoseconds.
fn cost_ns(tokens: u64, rate: u64) -> u64 {
    (u128::from(tokens) * u128::from(SECOND_NS) / u128::from(rate)).try_into().unwrap_or(u64::MAX)
}

impl Bucket {
    fn take(&mut self, now_ns: u64, cost_ns: u64) -> Result<(), Duration> {
        let wait_ns = (self.lack_ns(now_ns) + cost_ns.min(SECOND_NS)).saturating_sub(SECOND_NS);
        if wait_ns > 0 {
            return Err(Duration::from_nanos(wait_ns));
        }
        self.charge(now_ns, cost_ns);
        Ok(())
    }

    fn charge(&mut self, now_ns: u64, cost_ns: u64) {
        self.0 = self.0.max(now_ns).saturating_add(cost_ns);
    }

    /// Returns the time until the bucket is full, in nanoseconds.
    fn lack_ns(&self, now_ns: u64) -> u64 {
        self.0.saturating_sub(now_ns)
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
        let (mut bucket, now_ns) = (Bucket::default(), 5 * SECOND_NS);
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
        let (mut bucket, now_ns) = (Bucket::default(), SECOND_NS);
        bucket.take(now_ns, cost_ns(1, RATE)).unwrap();

        assert_eq!(bucket.take(now_ns, cost_ns(30, RATE)), Err(seconds(1) / 10));
        bucket.take(2 * now_ns, cost_ns(30, RATE)).unwrap();
        assert_eq!(bucket.take(2 * now_ns, cost_ns(1, RATE)), Err(seconds(2) + seconds(1) / 10));
    }

    #[test]
    fn a_charge_is_never_refused() {
        let mut bucket = Bucket::default();

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

    fn project(number: usize) -> ProjectId {
        ProjectId::new(&format!("project {number:0100}")).unwrap()
    }

    const PROJECTS: usize = 2 * BYTES_MAX / BYTES_PER_PROJECT;

    #[test]
    fn names_of_other_projects_give_a_project_no_new_tokens() {
        for tokens in [0, 100] {
            let (rates, limited) = (Rates::new(), ProjectId::new("limited").unwrap());
            rates.take(&limited, Quota::RequestsPerSecond, 1_000, 1).unwrap();

            for number in 0..PROJECTS {
                let _shared_buckets_may_be_empty = rates.take(&project(number), Quota::RequestsPerSecond, tokens, 1);
            }

            rates.take(&limited, Quota::RequestsPerSecond, 1, 1).unwrap_err();
            assert!(rates.table.lock().bytes <= BYTES_MAX);
        }
    }

    #[test]
    fn full_buckets_make_room_for_those_of_other_projects() {
        let rates = Rates::new();
        for number in 0..PROJECTS {
            rates.take(&project(number), Quota::PostedBytesPerSecond, 0, 1).unwrap();
        }

        for number in 0..100 {
            let project = ProjectId::new(&number.to_string()).unwrap();
            rates.take(&project, Quota::RequestsPerSecond, 1, 1).unwrap();
            rates.take(&project, Quota::RequestsPerSecond, 1, 1).unwrap_err();
        }
        let table = rates.table.lock();
        assert_eq!(table.shared.requests.lack_ns(0), 0);
        for (at, (project, _)) in table.entries.iter().enumerate() {
            assert_eq!(table.places[project], at);
        }
    }

    #[test]
    fn projects_share_buckets_while_there_is_no_room() {
        let rates = Rates::new();
        for number in 0..PROJECTS {
            rates.charge(&project(number), Quota::RequestsPerSecond, 1_000, 1);
        }

        rates.take(&project(0), Quota::PostedBytesPerSecond, 1, 1).unwrap();
        rates.take(&project(PROJECTS), Quota::PostedBytesPerSecond, 1, 1).unwrap();
        rates.take(&project(PROJECTS + 1), Quota::PostedBytesPerSecond, 1, 1).unwrap_err();
    }
}
