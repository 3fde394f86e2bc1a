//! The steps of moving a queue to another pool, in the store that it leaves and in the one that it
//! moves to. `storage/pooled/moves` puts them together, and `scripts/shared/moving.lua` describes
//! what is stored meanwhile.

mod copy;

use bytes::Bytes;

use super::RedisStore;
use super::arguments;
use super::keys::{MOVED, QueueKeys};
use super::queues::TOMBSTONE_KEPT_S;
use super::registrations::Mode;
use super::reply::{self, Reply};
use super::script::{MOVE_BEGIN, MOVE_COMPLETE, MOVE_DISCARD, MOVE_END, MOVE_FREEZE, MOVE_RENEW, MOVE_STATE, Script};
use crate::catalogue::MoveState;
use crate::{Epoch, Error};
use sukkal_domain::QueueId;

/// The contents of a key of a queue that moves.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Contents {
    /// Number of the name of the key in [`MOVED`], from 1 on.
    number: u64,
    /// The command for the size, which depends on the type of the key.
    size_command: String,
    size: u64,
    /// In milliseconds; 0 if the key is kept.
    lifetime_ms: u64,
}

/// A queue that is paused in the store that it leaves.
pub(crate) struct Frozen(Vec<Contents>);

impl Frozen {
    fn read(mut reply: Reply) -> Result<Self, Error> {
        let contents = reply.read_all(|reply| {
            let (number, size_command) = (reply.number()?, reply.text()?);
            Ok(Contents { number, size_command, size: reply.number()?, lifetime_ms: reply.number()? })
        });
        contents.map(Self)
    }

    fn encode(&self) -> impl Iterator<Item = Bytes> {
        self.0.iter().flat_map(|contents| {
            let Contents { number, size_command, size, lifetime_ms } = contents;
            let command = Bytes::copy_from_slice(size_command.as_bytes());
            [arguments::number(*number), command, arguments::number(*size), arguments::number(*lifetime_ms)]
        })
    }
}

impl RedisStore {
    /// Returns how far the move of the queue is in this store.
    pub(crate) async fn move_state(&self, queue: &QueueId) -> Result<MoveState, Error> {
        let mut reply = self.connection.run(&MOVE_STATE, &QueueKeys::of(queue), &[]).await?;
        match reply.text()?.as_str() {
            "absent" => Ok(MoveState::Absent),
            "exists" => Ok(MoveState::Exists),
            "moves" => {
                let label = Epoch(reply.number()?);
                Ok(MoveState::Moves { label, is_complete: reply.number()? == 1, has_expired: reply.number()? == 1 })
            }
            kind => Err(reply::unknown_kind(MOVE_STATE.name, kind)),
        }
    }

    /// Begins the copy of a queue in this store, which is a pool. The queue is registered before,
    /// so that maintenance finds what a crash leaves.
    pub(crate) async fn begin_copy(&self, queue: &QueueId, label: Epoch) -> Result<(), Error> {
        self.forward_dead_letters(queue).await?;
        self.register_with_project(queue, Mode::Exactly, label.0, None).await?;
        let reason = match self.run_move(&MOVE_BEGIN, queue, vec![arguments::number(label.0)]).await?.text()?.as_str() {
            "begun" => return Ok(()),
            "late" => "the queue was moved or deleted meanwhile",
            "occupied" => "the pool still has dead letters of an earlier queue of that name",
            kind => return Err(reply::unknown_kind(MOVE_BEGIN.name, kind)),
        };
        Err(Error::Unavailable(format!("cannot move queue {queue}: {reason}")))
    }

    /// Pauses a queue that leaves this store.
    ///
    /// # Errors
    ///
    /// [`Error::NoQueue`] if it does not exist.
    pub(crate) async fn freeze_queue(&self, queue: &QueueId, label: Epoch) -> Result<Frozen, Error> {
        let mut reply = self.run_move(&MOVE_FREEZE, queue, vec![arguments::number(label.0)]).await?;
        match reply.text()?.as_str() {
            "frozen" => Frozen::read(reply),
            "absent" => Err(Error::NoQueue),
            "late" => Err(was_undone(queue)),
            kind => Err(reply::unknown_kind(MOVE_FREEZE.name, kind)),
        }
    }

    /// Renews the lease of the process that moves the queue. Returns the contents as they are now.
    async fn renew_move(&self, queue: &QueueId, label: Epoch) -> Result<Frozen, Error> {
        let mut reply = self.run_move(&MOVE_RENEW, queue, vec![arguments::number(label.0)]).await?;
        match reply.text()?.as_str() {
            "held" => Frozen::read(reply),
            "lost" => Err(was_undone(queue)),
            kind => Err(reply::unknown_kind(MOVE_RENEW.name, kind)),
        }
    }

    /// Verifies the copy of a queue in this store, and records that it is complete.
    async fn complete_copy(&self, queue: &QueueId, label: Epoch, contents: &Frozen) -> Result<(), Error> {
        let args = [arguments::number(label.0)].into_iter().chain(contents.encode()).collect();
        let mut reply = self.run_move(&MOVE_COMPLETE, queue, args).await?;
        match reply.text()?.as_str() {
            "complete" => Ok(()),
            "differs" => {
                let at = usize::try_from(reply.number()?).unwrap_or(0);
                let name = MOVED.get(at.wrapping_sub(1)).map_or("unknown", |name| name.name());
                Err(Error::Corrupt(format!("the copy of queue {queue} has another number of {name}")))
            }
            "lost" => Err(was_undone(queue)),
            kind => Err(reply::unknown_kind(MOVE_COMPLETE.name, kind)),
        }
    }

    /// Ends the move of a queue that has its location in this store under this epoch, the one after
    /// its label. Has no effect if there is no complete move with that label.
    pub(crate) async fn end_move(&self, queue: &QueueId, epoch: Epoch) -> Result<(), Error> {
        if self.registered_version(queue).await?.is_none_or(|version| version < epoch.0) {
            self.register_with_project(queue, Mode::Exactly, epoch.0, None).await?;
        }
        self.run_move(&MOVE_END, queue, vec![arguments::number(epoch.0)]).await.map(drop)
    }

    /// Removes what the move with this label has left in this store, in which the queue does not
    /// have its location.
    pub(crate) async fn discard_move(&self, queue: &QueueId, label: Epoch) -> Result<(), Error> {
        let args = vec![arguments::number(label.0), Bytes::from_static(TOMBSTONE_KEPT_S.as_bytes())];
        self.run_move(&MOVE_DISCARD, queue, args).await?;
        self.remove_orphaned_registration(queue).await
    }

    async fn run_move(&self, script: &Script, queue: &QueueId, args: Vec<Bytes>) -> Result<Reply, Error> {
        let keys = QueueKeys::of(queue);
        let slot = self.connection.servers.slot(keys.prefix());
        let moving = MOVED.iter().map(|name| keys.moving(*name));
        let all = keys.named(script.keys, slot).into_iter().chain(keys.named(MOVED, slot)).chain(moving).collect();
        self.connection.run_on(script, all, args).await
    }
}

fn was_undone(queue: &QueueId) -> Error {
    Error::Unavailable(format!("cannot move queue {queue}: another process has undone the move"))
}
