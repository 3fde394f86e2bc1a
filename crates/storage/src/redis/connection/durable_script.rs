//! Runs a script and waits until its effects have reached a level of durability.
//!
//! A script whose connection is lost is repeated on a new one until the time is over. That is safe,
//! because it is idempotent.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tracing::debug;

use super::failure::{error_from_failure, is_permanent, no_server_known};
use super::receipt_connection::ReceiptFailure;
use super::receipts::Receipt;
use super::{Connection, PAUSE_BETWEEN_ATTEMPTS, RETRY_TIMEOUT};
use crate::Error;
use crate::redis::keys::{self, QueueKeys};
use crate::redis::reply::Reply;
use crate::redis::script::Script;
use sukkal_base::memory_budget::MemoryShare;
use sukkal_domain::{Durability, ProjectId, QueueId};

/// Name of the check in errors.
const CHECK: &str = "check of durability";

impl Connection {
    /// Returns a permit for a post of this project that waits for a receipt from the server of this
    /// slot.
    pub(in crate::redis) fn receipt_permit(&self, slot: u16, project: &ProjectId) -> Result<MemoryShare, Error> {
        let server = self.servers.of_slot(slot).ok_or_else(|| self.unavailable("post", slot, "no server has it"))?;
        server.receipts.permit(project)
    }

    /// Succeeds if the server that has this queue can confirm the level.
    pub(in crate::redis) async fn check_durability(&self, queue: &QueueId, level: Durability) -> Result<(), Error> {
        let slot = self.slot_with(|| QueueKeys::of(queue).queue());
        let server = self.servers.of_slot(slot).ok_or_else(|| self.unavailable(CHECK, slot, "no server has it"))?;
        match server.receipts.check(queue.project(), level, Instant::now() + RETRY_TIMEOUT).await {
            Ok(()) => Ok(()),
            Err(ReceiptFailure::Unsupported(reason)) => Err(Error::Unsupported(reason.to_owned())),
            Err(ReceiptFailure::TooFewReplicas(connected)) => Err(Error::TooFewReplicas { level, connected }),
            Err(ReceiptFailure::NotRun(error) | ReceiptFailure::Unknown(error)) => {
                Err(self.unavailable(CHECK, slot, &error.to_string()))
            }
        }
    }

    /// Runs an idempotent script for this project, and waits until its effects have reached the
    /// level, at most for `wait_max`. An error other than [`Error::NotDurable`] says that the
    /// script has not run.
    pub(in crate::redis) async fn run_durably(
        &self,
        script: &Script,
        keys: &[String],
        args: &[Bytes],
        project: &ProjectId,
        (level, wait_max): (Durability, Duration),
    ) -> Result<Receipt, Error> {
        let library = self.library(script.name).await?;
        let slot = keys.first().map_or(0, |key| self.servers.slot(key));
        if self.servers.disconnected_for(slot) > RETRY_TIMEOUT {
            self.servers.refresh_soon();
            return Err(self.unavailable(script.name, slot, "there is no connection"));
        }
        let not_durable = |reason: String| {
            debug!(reason, %level, "a post has not reached its durability");
            Error::NotDurable { level, reason }
        };
        let (mark, function) = (keys::receipt(slot), library.function(script, false));
        let (deadline, mut may_have_run) = (Instant::now() + wait_max, false);
        loop {
            let attempt = match self.servers.of_slot(slot) {
                Some(server) => {
                    let attempt =
                        server.receipts.attempt(project, (library, function), keys, args, &mark, (level, deadline));
                    Box::pin(attempt).await
                }
                None => Err(ReceiptFailure::NotRun(no_server_known())),
            };
            let error = match attempt {
                Ok((value, reached)) => {
                    return Ok(Receipt { reply: Reply::new(value, false), durability: reached.map_err(not_durable) });
                }
                Err(ReceiptFailure::Unsupported(reason)) if may_have_run => return Err(not_durable(reason.to_owned())),
                Err(ReceiptFailure::Unsupported(reason)) => return Err(Error::Unsupported(reason.to_owned())),
                Err(ReceiptFailure::TooFewReplicas(connected)) => {
                    let error = Error::TooFewReplicas { level, connected };
                    return Err(if may_have_run { not_durable(error.to_string()) } else { error });
                }
                Err(ReceiptFailure::NotRun(error)) => error,
                Err(ReceiptFailure::Unknown(error)) => {
                    may_have_run = true;
                    error
                }
            };
            self.servers.refresh_soon();
            // The master may be another server by now.
            let is_permanent = is_permanent(&error) && !error.details().starts_with("READONLY");
            let is_over = is_permanent || Instant::now() + PAUSE_BETWEEN_ATTEMPTS >= deadline;
            if is_over && may_have_run {
                return Err(not_durable(error.to_string()));
            } else if is_permanent {
                let error = error_from_failure(script.name, &error);
                self.note_refusal(slot, &error);
                return Err(error);
            } else if is_over {
                return Err(self.unavailable(script.name, slot, &error.to_string()));
            }
            sleep(PAUSE_BETWEEN_ATTEMPTS).await;
        }
    }
}
