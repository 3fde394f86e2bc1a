//! Logs when a server that verifies credentials fails, and when it works again.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};

/// Minimum time between two warnings, because clients may cause failures.
const WARNING_PAUSE: Duration = Duration::from_secs(60);

/// Whether a server fails.
#[derive(Debug)]
pub(super) struct Outage {
    /// The URL or the file of the server, for the log.
    server: String,
    state: Mutex<OutageState>,
}

#[derive(Debug, Default)]
struct OutageState {
    warned_at: Option<Instant>,
    is_failing: bool,
}

impl Outage {
    pub(super) fn new(server: String) -> Self {
        Self { server, state: Mutex::default() }
    }

    /// Logs whether the server fails and why, if that has changed.
    pub(super) fn note(&self, failure: Option<&str>) {
        let mut state = self.state.lock();
        match failure {
            None if state.is_failing => {
                state.is_failing = false;
                info!(server = self.server, "credentials can be verified again");
            }
            Some(error) if state.warned_at.is_none_or(|warned_at| warned_at.elapsed() >= WARNING_PAUSE) => {
                *state = OutageState { warned_at: Some(Instant::now()), is_failing: true };
                warn!(server = self.server, error, "credentials cannot be verified");
            }
            Some(_) | None => {}
        }
    }
}
