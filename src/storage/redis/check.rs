//! Looks whether the store is what it should be, a few messages at a time, so that others hardly notice.

use bytes::Bytes;

use super::RedisStore;
use super::keys::QueueKeys;
use super::messages::text;
use super::reply;
use super::script::QUEUE_CHECK;
use crate::domain::QueueId;
use crate::storage::key::id_of;
use crate::storage::{Check, Error};

/// How many messages one script looks at.
const MESSAGES_PER_STEP: u64 = 100;
const SETS: [&str; 3] = ["ready", "delayed", "held"];

impl RedisStore {
    /// Looks at one queue, set by set.
    pub(super) async fn check_queue(&self, queue: &QueueId, check: &mut Check) -> Result<(), Error> {
        let mut is_counted = false;
        for set in SETS {
            let mut from = Some(text(0));
            while let Some(rank) = from {
                let args = vec![Bytes::from_static(set.as_bytes()), rank, text(MESSAGES_PER_STEP)];
                let mut reply = self.connection.run(&QUEUE_CHECK, QueueKeys::of(queue).all(), args).await?;
                match reply.text()?.as_str() {
                    "looked" => {}
                    // It was deleted in the meantime, or its name is registered before it is there.
                    "absent" => return Ok(()),
                    kind => return Err(reply::unknown(QUEUE_CHECK.name, kind)),
                }
                let (records, placed) = (reply.number()?, reply.number()?);
                let last = reply.bytes()?;
                check.messages += reply.number()?;
                while !reply.is_empty() {
                    let (key, what) = (reply.bytes()?, reply.text()?);
                    match id_of(queue, &key) {
                        Ok(id) => check.find(queue, format_args!("message {id} {what}")),
                        Err(error) => check.find(queue, error),
                    }
                }
                if !is_counted {
                    is_counted = true;
                    check.queues += 1;
                    if records != placed {
                        check.find(queue, format_args!("{records} messages are stored, {placed} are in the feed"));
                    }
                }
                from = Some(last).filter(|last| !last.is_empty());
            }
        }
        Ok(())
    }
}
