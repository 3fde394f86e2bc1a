//! Runs a redrive: does one step after another until the task ends.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, error, warn};
use uuid::Uuid;

use super::{AdmissionControl, Error, LeaseFence, RedriveStep, TaskStore};
use sukkal_domain::{QueueId, TaskId};

/// Maximum time that a step waits for its admission. Then it is tried again.
const ADMISSION_WAIT_MAX: Duration = Duration::from_secs(5);
/// Pause after a step that has failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Why a task has failed, for clients.
const FAILURE: &str = "The service could not read its data. Its log has the cause under the id of this task.";

/// Does the steps of a redrive until it ends or another process continues it. Returns at once if
/// another process has its lease. Steps are admitted like the operations of a client, so that a
/// redrive takes turns with other projects.
///
/// If this is interrupted, the maintenance of any process continues the task when its lease has
/// expired.
pub async fn run_redrive(store: &(impl TaskStore + AdmissionControl + ?Sized), queue: &QueueId, task: TaskId) {
    let fence = match store.take_task_lease(queue, task, Uuid::new_v4()).await {
        Ok(Some(fence)) => fence,
        Ok(None) => return,
        Err(error) => {
            debug!(%queue, %task, %error, "cannot take the lease of a task; the janitor tries again");
            return;
        }
    };
    loop {
        let began = Instant::now();
        match step(store, queue, task, fence).await {
            Ok(RedriveStep::Ended) => return,
            Ok(RedriveStep::Continue { moved, per_second }) => {
                if let Some(per_second) = per_second {
                    sleep_until(began + Duration::from_secs(moved) / per_second).await;
                }
            }
            Err(error) if error.is_transient() => {
                debug!(%queue, %task, %error, "a redrive waits for the store");
                sleep(RETRY_PAUSE).await;
            }
            Err(error) => {
                error!(%queue, %task, %error, "a redrive has failed");
                match store.fail_task(queue, task, fence, FAILURE).await {
                    Ok(()) => return,
                    Err(error) => warn!(%queue, %task, %error, "cannot record that a redrive has failed"),
                }
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}

async fn step(
    store: &(impl TaskStore + AdmissionControl + ?Sized),
    queue: &QueueId,
    task: TaskId,
    fence: LeaseFence,
) -> Result<RedriveStep, Error> {
    let _permit = store.queue_admission(queue).acquire(queue.project(), ADMISSION_WAIT_MAX).await?;
    store.redrive_step(queue, task, fence).await
}
