//! The janitor: goes round all queues and reclaims what has ended in those that nobody touches.

use std::sync::Arc;
use std::time::Duration;

use tracing::{debug, warn};

use crate::storage::{Driver, Error};

/// How long it lets others work between two steps.
const STEP_PAUSE: Duration = Duration::from_millis(5);

/// Goes round until it is dropped. A round that fails is begun anew: every step stands for itself.
pub async fn run(store: Arc<dyn Driver>, pause: Duration) {
    loop {
        match round(store.as_ref()).await {
            Ok(steps) => debug!(steps, "the janitor has gone round"),
            Err(error) => warn!(%error, "the janitor could not go round"),
        }
        tokio::time::sleep(pause).await;
    }
}

async fn round(store: &dyn Driver) -> Result<u64, Error> {
    let mut steps = 0;
    let mut reached = None;
    loop {
        reached = store.tidy(reached.as_ref()).await?;
        if reached.is_none() {
            return Ok(steps);
        }
        steps += 1;
        tokio::time::sleep(STEP_PAUSE).await;
    }
}
