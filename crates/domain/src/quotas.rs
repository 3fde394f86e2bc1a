//! Quotas: limits of what one project may use. `docs/quotas.md` explains each of them.

use std::ops::{Index, IndexMut};

use ahash::HashMap;

use super::project::ProjectId;

/// Maximum value of a limit. Scripts can represent it exactly.
pub const QUOTA_MAX: u64 = 1_000_000_000_000_000;

/// Something that a project may use up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quota {
    /// Requests in a second.
    RequestsPerSecond,
    /// Bytes in a second, in the bodies of requests that post messages.
    PostedBytesPerSecond,
    /// Queues.
    Queues,
    /// Subscriptions of all queues.
    Subscriptions,
    /// Messages stored in all queues.
    Messages,
    /// Messages stored in each queue.
    MessagesPerQueue,
    /// Bytes of the messages stored in all queues.
    Bytes,
    /// Bytes of the messages stored in each queue.
    BytesPerQueue,
    /// Requests that wait for messages in one process.
    WaitingRequests,
    /// Event streams of one process.
    EventStreams,
}

impl Quota {
    /// All quotas, in the order of documents.
    pub const ALL: [Self; 10] = [
        Self::RequestsPerSecond,
        Self::PostedBytesPerSecond,
        Self::Queues,
        Self::Subscriptions,
        Self::Messages,
        Self::MessagesPerQueue,
        Self::Bytes,
        Self::BytesPerQueue,
        Self::WaitingRequests,
        Self::EventStreams,
    ];

    /// Returns the name of the quota in options and documents.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests_per_second",
            Self::PostedBytesPerSecond => "posted_bytes_per_second",
            Self::Queues => "queues",
            Self::Subscriptions => "subscriptions",
            Self::Messages => "messages",
            Self::MessagesPerQueue => "messages_per_queue",
            Self::Bytes => "bytes",
            Self::BytesPerQueue => "bytes_per_queue",
            Self::WaitingRequests => "waiting_requests",
            Self::EventStreams => "event_streams",
        }
    }

    /// Returns the quota with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|quota| quota.name() == name)
    }
}

/// A value for each quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerQuota<T>([T; Quota::ALL.len()]);

/// The limit of each quota; 0 is no limit.
pub type QuotaLimits = PerQuota<u64>;

/// The limits that are set for one project, in place of the defaults.
pub type QuotaOverrides = PerQuota<Option<u64>>;

impl<T> Index<Quota> for PerQuota<T> {
    type Output = T;

    fn index(&self, quota: Quota) -> &T {
        &self.0[quota as usize]
    }
}

impl<T> IndexMut<Quota> for PerQuota<T> {
    fn index_mut(&mut self, quota: Quota) -> &mut T {
        &mut self.0[quota as usize]
    }
}

impl QuotaOverrides {
    /// Returns the quotas that are set, with their limits.
    pub fn set(&self) -> impl Iterator<Item = (Quota, u64)> {
        Quota::ALL.into_iter().filter_map(|quota| Some((quota, self[quota]?)))
    }

    /// Returns whether no quota is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set().next().is_none()
    }
}

/// Limits of what a queue may have after a post.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QueueLimits {
    /// Maximum number of messages; `None` for no limit.
    pub messages: Option<u64>,
    /// Maximum sum of the sizes of the messages, in bytes; `None` for no limit.
    pub bytes: Option<u64>,
}

/// The quotas of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuotaConfig {
    /// The limits of every project.
    pub defaults: QuotaLimits,
    /// The limits of single projects, in place of the defaults.
    pub projects: HashMap<ProjectId, QuotaOverrides>,
    /// How the refusal of a request that exceeds a rate is reported.
    pub rate_limit_status: RateLimitStatus,
}

/// How the refusal of a request that exceeds a rate is reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RateLimitStatus {
    /// `503`: published Zaqar clients take a `429` for success.
    #[default]
    Unavailable,
    /// `429`.
    TooManyRequests,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quota_has_its_own_place_and_name() {
        for (index, quota) in Quota::ALL.into_iter().enumerate() {
            assert_eq!(quota as usize, index);
            assert_eq!(Quota::named(quota.name()), Some(quota));
        }
    }
}
