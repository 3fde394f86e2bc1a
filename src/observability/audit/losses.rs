//! Records that could not be written. They are counted in a metric, reported in the log of the
//! service, and in the audit log as soon as it can be written again.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tracing::error;

use super::record;
use crate::observability::metrics::Metrics;

/// Minimum time between two lines in the log of the service.
const REPORT_PAUSE: Duration = Duration::from_secs(60);
const REASON: &str = "the audit log could not be written";

pub(super) struct Losses {
    metrics: Arc<Metrics>,
    /// Number of lost records that the audit log does not mention yet.
    pub(super) unmentioned: AtomicU64,
    last_report: Mutex<Option<Instant>>,
}

impl Losses {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, unmentioned: AtomicU64::new(0), last_report: Mutex::default() }
    }

    /// Counts a lost record.
    pub(super) fn count(&self, reason: &dyn Display) {
        self.metrics.count_lost_audit_record();
        self.unmentioned.fetch_add(1, Ordering::SeqCst);
        self.report(reason);
    }

    /// Reports a fault of the audit log, at most once a minute.
    pub(super) fn report(&self, reason: &dyn Display) {
        let mut last = self.last_report.lock();
        if last.is_none_or(|last| last.elapsed() >= REPORT_PAUSE) {
            *last = Some(Instant::now());
            error!(%reason, "the audit log cannot be written");
        }
    }

    /// Mentions the lost records in the audit log, if there are any. `write` writes a line and
    /// returns whether it succeeded.
    pub(super) fn mention(&self, write: impl FnOnce(&str) -> bool) {
        let lost = self.unmentioned.load(Ordering::SeqCst);
        if lost > 0 && write(&record::omission(lost, REASON)) {
            self.unmentioned.fetch_sub(lost, Ordering::SeqCst);
        }
    }
}
