//! The limits in force, and the rates that are counted against them.
//!
//! The limits of a project are those that an operator has set in the store, or else those of the
//! configuration. Each process reads the list of the store again every two seconds. So checking a
//! limit needs no access to the store.

use std::sync::Arc;

use ahash::HashMap;
use parking_lot::RwLock;

use super::rates::Rates;
use super::usage_cache::UsageCache;
use crate::broker::Error;
use sukkal_domain::{ProjectId, Quota, QuotaConfig, QuotaLimits, QuotaOverrides};
use sukkal_storage::{QuotaList, QuotaVersion};

/// The quotas of all projects.
#[derive(Debug)]
pub(in crate::broker) struct Quotas {
    config: QuotaConfig,
    stored: RwLock<Stored>,
    pub(super) rates: Rates,
    pub(super) usage: UsageCache,
}

/// The quotas that the store had when they were last read.
#[derive(Debug, Default)]
struct Stored {
    version: Option<QuotaVersion>,
    projects: HashMap<ProjectId, QuotaOverrides>,
}

impl Quotas {
    pub(in crate::broker) fn new(config: QuotaConfig) -> Arc<Self> {
        let (stored, rates, usage) = (RwLock::default(), Rates::new(), UsageCache::new());
        Arc::new(Self { config, stored, rates, usage })
    }

    /// Returns the limit of a project; `None` if it has none.
    pub(super) fn limit(&self, project: &ProjectId, quota: Quota) -> Option<u64> {
        let limit_in = |projects: &HashMap<ProjectId, QuotaOverrides>| projects.get(project)?[quota];
        let limit = limit_in(&self.stored.read().projects).or_else(|| limit_in(&self.config.projects));
        Some(limit.unwrap_or(self.config.defaults[quota])).filter(|limit| *limit > 0)
    }

    pub(super) fn limits(&self, project: &ProjectId) -> QuotaLimits {
        let mut limits = QuotaLimits::default();
        for quota in Quota::ALL {
            limits[quota] = self.limit(project, quota).unwrap_or(0);
        }
        limits
    }

    /// Returns the limits that an operator has set for the project in the store.
    pub(super) fn set_for(&self, project: &ProjectId) -> QuotaOverrides {
        self.stored.read().projects.get(project).copied().unwrap_or_default()
    }

    /// Returns the version of the list that the store had when it was last read.
    pub(super) fn version(&self) -> Option<QuotaVersion> {
        self.stored.read().version.clone()
    }

    /// Replaces the list of the store.
    pub(super) fn update(&self, list: QuotaList) {
        let stored = Stored { version: list.version, projects: list.projects.into_iter().collect() };
        *self.stored.write() = stored;
    }

    /// Takes tokens of a rate of the project.
    pub(super) fn take(&self, project: &ProjectId, quota: Quota, tokens: u64) -> Result<(), Error> {
        let Some(max) = self.limit(project, quota) else {
            return Ok(());
        };
        self.rates.take(project, quota, tokens, max).map_err(|wait| Error::RateExceeded {
            quota,
            max,
            retry_after_s: wait.as_secs() + u64::from(wait.subsec_nanos() > 0),
            status: self.config.rate_limit_status,
        })
    }
}
